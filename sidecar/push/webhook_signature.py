"""Signatures of webhooks as the Standard Webhooks specification has them (symmetric, `v1`).

Signed are `id.timestamp.body`, with HMAC-SHA256; with several secrets there are several
signatures, so that a receiver may change from one to the other at its leisure. Pure: secrets come
in as bytes; where they are kept is not its matter.
"""

import binascii
import hmac
from base64 import b64decode, b64encode
from collections.abc import Sequence
from typing import Final

KEY_PREFIX: Final = "whsec_"
SECRET_BYTES_MIN: Final = 24
"""The specification asks for 24 to 64 bytes."""
SECRET_BYTES_MAX: Final = 64


class BadSecret(ValueError):
    """Not a secret that can sign; the text never holds any part of it."""


def parse_secret(text: str) -> bytes:
    """The key in `whsec_` and base64, as receivers are given it."""
    encoded = text.strip()
    if not encoded.startswith(KEY_PREFIX):
        raise BadSecret(f"must begin with {KEY_PREFIX}, and base64 after it")
    try:
        key = b64decode(encoded.removeprefix(KEY_PREFIX), validate=True)
    except (binascii.Error, ValueError) as error:
        # The error's own text is left out: it might quote what it could not read.
        raise BadSecret(f"must be base64 behind {KEY_PREFIX}") from error
    if not SECRET_BYTES_MIN <= len(key) <= SECRET_BYTES_MAX:
        raise BadSecret(f"must have {SECRET_BYTES_MIN} to {SECRET_BYTES_MAX} bytes, not {len(key)}")
    return key


def sign(keys: Sequence[bytes], message_id: str, timestamp_s: int, body: bytes) -> str:
    """The `webhook-signature` header: one `v1,…` for each key."""
    signed = f"{message_id}.{timestamp_s}.".encode() + body
    return " ".join(
        "v1," + b64encode(hmac.digest(key, signed, "sha256")).decode("ascii") for key in keys
    )
