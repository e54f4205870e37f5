"""Base64url as RFC 7515 has it: no padding, no other characters, one spelling for each value.

Python's decoders skip what they do not know and ignore left-over bits, so that many texts mean
the same bytes. Here only the text that an encoder would write is accepted. Pure; imports nothing
of the project.
"""

import binascii
from base64 import urlsafe_b64encode
from typing import Final

_TO_STANDARD: Final = bytes.maketrans(b"-_", b"+/")


class NotBase64url(ValueError):
    """The text is not the one canonical encoding of any bytes."""


def decode_base64url(text: str) -> bytes:
    """The bytes that `text` stands for. Raises NotBase64url for any text but the canonical one."""
    try:
        ascii_text = text.encode("ascii")
        padding = b"=" * (-len(ascii_text) % 4)
        decoded = binascii.a2b_base64(ascii_text.translate(_TO_STANDARD) + padding)
    except (UnicodeEncodeError, binascii.Error) as error:
        raise NotBase64url("not base64url without padding") from error
    if encode_base64url(decoded) != text:
        raise NotBase64url("not the canonical base64url without padding")
    return decoded


def encode_base64url(data: bytes) -> str:
    """`data` as base64url without padding."""
    return urlsafe_b64encode(data).rstrip(b"=").decode("ascii")
