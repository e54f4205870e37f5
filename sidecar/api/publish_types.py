"""What a publish of one message takes and gives, its receipt included, as types.

Like `api_types.py`, of which these are a part: they check parameters and make the OpenAPI pages.
"""

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from sidecar.api.api_types import Published, PublishQuery


class OnePublishQuery(PublishQuery, forbid_unknown_fields=True):
    """Parameters of a publish of one message."""

    receipt: Annotated[
        Literal["0", "1"], Meta(description="1: answer with the proof that it is in the log")
    ] = "0"


class RawPublishQuery(OnePublishQuery, forbid_unknown_fields=True):
    """Parameters of a publish whose body is the message itself."""

    key: Annotated[str | None, Meta(description="Messages with the same key keep their order")] = (
        None
    )
    id: Annotated[
        str | None, Meta(description="The app's own id: a repeat within the window is dropped")
    ] = None


class ReceiptQuery(msgspec.Struct, forbid_unknown_fields=True):
    """Parameters of a receipt."""

    timeout_ms: Annotated[
        Annotated[int, Meta(ge=1)] | None,
        Meta(description="How long to wait for a cosigned checkpoint that covers the message"),
    ] = None


class Receipt(msgspec.Struct):
    """The proof that a message is in the log; `sidegate log check-proof` checks it."""

    format: Literal["sidegate-proof/1"]
    topic: str
    partition: int
    offset: int
    principal: str
    gatekeeper: str
    appended: str
    leaf: int
    size: int
    envelope: str
    hashes: list[str]
    checkpoint: str
    body: str | None


class PublishedOne(Published):
    """Where the message is now; with `receipt=1` also the proof, or why there is none yet."""

    receipt: Receipt | UnsetType | None = UNSET
    reason: str | UnsetType = UNSET
    receipt_url: str | UnsetType = UNSET
