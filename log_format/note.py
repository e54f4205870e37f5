"""Signed notes: text under the signatures of one or more keys, exactly as C2SP signed-note says.

Parses and formats notes and verifier keys, and computes key ids. Signing and verifying are the
caller's: this package imports no cryptography.
"""

import base64
import binascii
from dataclasses import dataclass, replace
from enum import IntEnum
from hashlib import sha256
from typing import Final

from log_format.errors import BadField

NOTE_BYTES_MAX: Final = 64 * 1024
"""A whole note: room for far more than the signatures below, and nothing to fill a memory with."""
SIGNATURES_MAX: Final = 100
"""Signatures on one note: the reference implementation's own limit; "at least up to 16"."""
KEY_NAME_BYTES_MAX: Final = 512
"""A key's name: a gatekeeper's id, which the envelope bounds to the same length."""
KEY_ID_BYTES: Final = 4
PUBLIC_KEY_BYTES: Final = 32
SIGNATURE_BYTES: Final = 64

_DASH: Final = "\u2014 "


class SignatureType(IntEnum):
    """The signature types that Sidegate uses, with the bytes that the specification assigns."""

    ED25519 = 0x01
    COSIGNATURE_V1 = 0x04


@dataclass(frozen=True, slots=True)
class VerifierKey:
    """A public Ed25519 key under a name, for one type of signature."""

    name: str
    type: SignatureType
    public: bytes

    def __post_init__(self) -> None:
        check_key_name(self.name)
        if len(self.public) != PUBLIC_KEY_BYTES:
            raise BadField("key", f"{len(self.public)} bytes are no Ed25519 public key")

    @property
    def id(self) -> bytes:
        """SHA-256(name ‖ 0x0A ‖ type ‖ public key)[:4]."""
        typed = bytes([self.type]) + self.public
        return sha256(self.name.encode() + b"\n" + typed).digest()[:KEY_ID_BYTES]

    def __str__(self) -> str:
        """The key as a vkey: `<name>+<hex id>+<base64(type ‖ public key)>`."""
        typed = bytes([self.type]) + self.public
        return f"{self.name}+{self.id.hex()}+{encode_base64(typed)}"


@dataclass(frozen=True, slots=True)
class Signature:
    """A signature line, not verified: who it claims to be from, and the bytes after the key id."""

    name: str
    key_id: bytes
    signature: bytes

    def __str__(self) -> str:
        """The line, without its newline."""
        return f"{_DASH}{self.name} {encode_base64(self.key_id + self.signature)}"

    def is_by(self, key: VerifierKey) -> bool:
        """True if it claims to be this key's: "the tuple of key name and key ID"."""
        return self.name == key.name and self.key_id == key.id


@dataclass(frozen=True, slots=True)
class Note:
    """A text that ends with a newline, and signatures over it that nobody has verified yet."""

    text: str
    signatures: tuple[Signature, ...] = ()

    def __str__(self) -> str:
        """The signed note."""
        lines = "".join(f"{signature}\n" for signature in self.signatures)
        return f"{self.text}\n{lines}"

    def with_signature(self, signature: Signature) -> "Note":
        """The note with one more signature, in the place of an older one by the same key."""
        others = tuple(
            each
            for each in self.signatures
            if (each.name, each.key_id) != (signature.name, signature.key_id)
        )
        return replace(self, signatures=(*others, signature))


def parse_vkey(text: str) -> VerifierKey:
    """Read a vkey; surrounding white space, as of a file's line, is the caller's to remove."""
    name, *rest = text.split("+", 2)
    if len(rest) != 2:
        raise BadField("key", "a vkey has the form <name>+<hex id>+<base64 key>")
    typed = decode_base64(rest[1], "key")
    try:
        key = VerifierKey(name, SignatureType(typed[0]), typed[1:])
    except (IndexError, ValueError) as error:
        raise BadField("key", f"not an Ed25519 key or cosigner's key ({error})") from error
    if str(key) != text:
        raise BadField("key", f"the key's id is {key.id.hex()}, not the one that the vkey states")
    return key


def parse_note(data: str | bytes) -> Note:
    """Read a signed note, strictly: what is not exactly of the specified form is refused."""
    if len(data) > NOTE_BYTES_MAX:
        raise BadField("note", f"longer than {NOTE_BYTES_MAX} bytes")
    try:
        text = data.decode() if isinstance(data, bytes) else data
        text.encode()
    except UnicodeError:
        raise BadField("note", "not valid UTF-8") from None
    if any(character < " " and character != "\n" for character in text):
        raise BadField("note", "holds a control character")
    body, separator, signatures = text.rpartition("\n\n")
    if not separator or not signatures.endswith("\n"):
        raise BadField("note", "has no signatures behind its last empty line")
    lines = signatures[:-1].split("\n")
    if len(lines) > SIGNATURES_MAX:
        raise BadField("note", f"more than {SIGNATURES_MAX} signatures")
    return Note(body + "\n", tuple(_parse_signature(line) for line in lines))


def check_key_name(name: str) -> None:
    """Refuse a name that no key may have: "non-empty", no "Unicode spaces or plus"."""
    if not name or "+" in name or any(each.isspace() or each < " " for each in name):
        raise BadField("key name", f"{name!r} is empty or holds a space or a plus")
    if len(name.encode(errors="replace")) > KEY_NAME_BYTES_MAX:
        raise BadField("key name", f"longer than {KEY_NAME_BYTES_MAX} bytes")


def encode_base64(data: bytes) -> str:
    """Standard base64 with padding (RFC 4648, section 4)."""
    return base64.b64encode(data).decode()


def decode_base64(text: str, field: str) -> bytes:
    """Standard base64, in the one spelling that the bytes have."""
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise BadField(field, "not base64") from None
    if encode_base64(data) != text:
        raise BadField(field, "not the canonical base64 of its bytes")
    return data


def _parse_signature(line: str) -> Signature:
    if not line.startswith(_DASH):
        raise BadField("note", "a line behind the last empty line is no signature")
    name, space, encoded = line[len(_DASH) :].partition(" ")
    if not space:
        raise BadField("note", "a signature line lacks a key name or a signature")
    check_key_name(name)
    data = decode_base64(encoded, "signature")
    if len(data) <= KEY_ID_BYTES:
        raise BadField("signature", "shorter than a key id and a signature")
    return Signature(name, data[:KEY_ID_BYTES], data[KEY_ID_BYTES:])
