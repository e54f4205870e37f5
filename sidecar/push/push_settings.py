"""What a push subscription is told to do: the request's types, and what they become.

These types check what apps ask for, make the OpenAPI pages, and are kept in the subscription's
`settings` in the log, so that any sidecar of the owner can carry it out. Secrets are never in
them: only the names of files below the folder `push.secrets` of each sidecar.
"""

import re
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from sidecar.delivery.tries import HISTORY_MAX
from sidecar.errors import BadRequest
from sidecar.push.push_queue import Patience
from sidecar.uplink.backoff import Backoff

DEAD_SUFFIX: Final = ".dead"
MAX_ATTEMPTS: Final = 10
"""The default: with the default waits, about two to four minutes of failures."""
HEADERS_MAX: Final = 32
"""Headers of a subscription's own; servers commonly take a hundred in all."""
SECRETS_MAX: Final = 2
"""The old and the new one, while a receiver changes."""
_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}")
_FIELD_VALUE: Final = re.compile(r"[\t -~]{0,1024}")
_FILE_NAME: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}")
_OURS: Final = ("sidegate-", "webhook-")
_HOP_BY_HOP: Final = frozenset(
    {
        "accept-encoding", "connection", "content-encoding", "content-length", "content-type",
        "expect", "host", "keep-alive", "proxy-connection", "te", "trailer", "traceparent",
        "tracestate", "transfer-encoding", "upgrade",
    }
)  # fmt: skip
_SECRET: Final = frozenset({"authorization", "cookie", "proxy-authorization", "x-api-key"})

FileName = Annotated[str, Meta(description="A file below the sidecar's folder push.secrets")]


class SecretHeader(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A header whose value is in a file, such as a bearer token."""

    secret_file: FileName


class Push(msgspec.Struct, forbid_unknown_fields=True, frozen=True, omit_defaults=True):
    """Where messages are sent, and how. Exactly one of `url` and `channel` is given."""

    url: Annotated[str | None, Meta(description="http://127.0.0.1:8080/hook")] = None
    channel: Annotated[str | None, Meta(description="The id of a channel")] = None
    method: Literal["POST", "PUT", "PATCH"] = "POST"
    headers: dict[str, str | SecretHeader] = msgspec.field(default_factory=dict)
    timeout_ms: Annotated[int, Meta(ge=10, le=600_000, description="For the whole answer")] = 30_000
    concurrency: Annotated[int, Meta(ge=1, le=256, description="Requests at one time")] = 16
    body: Annotated[
        Literal["raw", "envelope", "cloudevent"],
        Meta(description="The payload as it is, the JSON envelope, or a CloudEvent in JSON"),
    ] = "envelope"
    secret_file: Annotated[
        FileName | list[FileName] | None,
        Meta(description="Signs deliveries (Standard Webhooks); name two while it is changed"),
    ] = None

    @property
    def secret_files(self) -> list[str]:
        """The files of the keys that sign."""
        named = self.secret_file
        if named is None:
            return []
        return [named] if isinstance(named, str) else list(named)


class Retry(msgspec.Struct, forbid_unknown_fields=True, frozen=True, omit_defaults=True):
    """How often and how soon a failed message is tried again."""

    max_attempts: Annotated[
        Annotated[int, Meta(ge=1, le=HISTORY_MAX)] | UnsetType | None,
        Meta(description="Then it goes to the dead letters; null: for ever; default: 10"),
    ] = UNSET
    first_ms: Annotated[int, Meta(ge=1, le=3_600_000)] = 500
    max_ms: Annotated[int, Meta(ge=1, le=3_600_000)] = 60_000
    unreachable: Annotated[
        Literal["wait", "count"] | UnsetType,
        Meta(
            description="While nothing can be sent at all: wait, and count no attempt, or count. "
            "Default: wait, unless max_attempts is given"
        ),
    ] = UNSET


class DeadLetter(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Where messages go whose attempts are used up."""

    topic: str


class Rerun(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A subscription that delivers a range again on behalf of another, and then deletes itself."""

    kind: Literal["redrive", "replay"]
    of: str
    until: dict[str, int]
    """By partition: the offset before which it ends."""


class Settings(msgspec.Struct, forbid_unknown_fields=True, frozen=True, omit_defaults=True):
    """What is kept with the subscription in the log."""

    push: Push | None = None
    retry: Retry = msgspec.field(default_factory=Retry)
    dead_letter: DeadLetter | None = None
    """None: messages whose attempts are used up are dropped, and counted."""
    filter: str | None = None
    fire_and_forget: bool = False
    rerun: Rerun | None = None
    redriven: dict[str, int] = msgspec.field(default_factory=dict)
    """By partition of the dead letters' topic: how far they were put back already."""
    registered: bool = False
    """Made by /register/subscriber."""

    @property
    def patience(self) -> Patience:
        """How often messages are tried, as the queue wants it."""
        retry = self.retry
        if self.fire_and_forget:
            return Patience(max_attempts=1, waits_unreached=False)
        given = retry.max_attempts is not UNSET
        count = (given if retry.unreachable is UNSET else retry.unreachable == "count") is True
        return Patience(
            MAX_ATTEMPTS if isinstance(retry.max_attempts, UnsetType) else retry.max_attempts,
            Backoff(first_s=retry.first_ms / 1000, max_s=retry.max_ms / 1000),
            waits_unreached=not count,
        )


def read_settings(stored: object) -> Settings:
    """The settings as the log has them, or BadRequest: another version may have written them."""
    try:
        return msgspec.convert(stored, Settings)
    except msgspec.ValidationError as error:
        raise BadRequest("settings", str(error)) from error


def stored_settings(settings: Settings) -> dict[str, Any]:
    """The settings as they go into the log."""
    document: dict[str, Any] = msgspec.to_builtins(settings)
    return document


def check_push(push: Push) -> None:
    """Refuse what the types let pass, with BadRequest that names the field."""
    if (push.url is None) == (push.channel is None):
        raise BadRequest("push", "give exactly one of url and channel")
    if len(push.headers) > HEADERS_MAX:
        raise BadRequest("push.headers", f"has {len(push.headers)}; the limit is {HEADERS_MAX}")
    for name, value in push.headers.items():
        _check_header(name, value)
    files = push.secret_files
    if push.secret_file is not None and not 1 <= len(files) <= SECRETS_MAX:
        raise BadRequest("push.secret_file", f"name one file, or {SECRETS_MAX} while it is changed")
    for file in files:
        _check_file("push.secret_file", file)


def check_retry(retry: Retry) -> None:
    """Refuse waits that make no sense."""
    if retry.max_ms < retry.first_ms:
        raise BadRequest("retry.max_ms", f"must be at least first_ms, which is {retry.first_ms}")


def _check_header(name: str, value: str | SecretHeader) -> None:
    field, lower = f"push.headers.{name[:64]}", name.lower()
    if _TOKEN.fullmatch(name) is None:
        raise BadRequest(field, "is no header's name")
    if lower in _HOP_BY_HOP or lower.startswith(_OURS):
        raise BadRequest(field, "is set by the sidecar itself; leave it out")
    if isinstance(value, SecretHeader):
        _check_file(f"{field}.secret_file", value.secret_file)
    elif lower in _SECRET:
        # Definitions are kept in the log and shown in answers.
        raise BadRequest(
            field,
            'is a secret and must not enter the log; write {"secret_file": NAME} as its value',
        )
    elif _FIELD_VALUE.fullmatch(value) is None:
        raise BadRequest(field, "must be at most 1,024 printable ASCII characters")


def _check_file(field: str, name: str) -> None:
    if _FILE_NAME.fullmatch(name) is None:
        raise BadRequest(field, "must be a file's name without a folder, such as mailer.key")
