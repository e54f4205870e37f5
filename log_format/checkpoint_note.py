"""Checkpoints of the tree as signed notes (C2SP tlog-checkpoint), and witnesses' cosignatures.

A checkpoint states the size and root of the log with this origin. The core signs it with a plain
Ed25519 signature; a witness that has seen it extend all earlier ones adds a cosignature/v1
(C2SP tlog-cosignature), which carries the time. Signing and verifying are callables.
"""

import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from log_format.errors import BadField
from log_format.note import (
    SIGNATURE_BYTES,
    Note,
    Signature,
    SignatureType,
    VerifierKey,
    decode_base64,
    encode_base64,
)
from log_format.tree import HASH_BYTES, SIZE_MAX

ORIGIN_PREFIX: Final = "sidegate/"
TIME_MAX: Final = 2**63 - 1
"""Seconds since 1970 in a cosignature: "It MUST NOT exceed 2^63 - 1"."""

_TIME: Final = struct.Struct(">Q")

Sign = Callable[[bytes], bytes]
"""Makes the Ed25519 signature of a message."""
Verify = Callable[[bytes, bytes, bytes], bool]
"""`verify(public key, message, signature)`: true if it is that key's Ed25519 signature."""


@dataclass(frozen=True, slots=True)
class TreeHead:
    """A checkpoint's text: the tree of `size` leaves of the log `origin` has this root."""

    origin: str
    size: int
    root: bytes
    extensions: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.origin or "\n" in self.origin:
            raise BadField("origin", "empty, or more than a line")
        if not 0 <= self.size <= SIZE_MAX:
            raise BadField("size", f"{self.size} is not the size of a tree")
        if len(self.root) != HASH_BYTES:
            raise BadField("root", f"{len(self.root)} bytes are no SHA-256")
        if any(not line or "\n" in line for line in self.extensions):
            raise BadField("extension", "empty, or more than a line")

    @property
    def text(self) -> str:
        """The note's text."""
        lines = (self.origin, str(self.size), encode_base64(self.root), *self.extensions)
        return "".join(f"{line}\n" for line in lines)


@dataclass(frozen=True, slots=True)
class Verified:
    """A signature that was verified. `time_s` is a cosignature's time, None for the log's own."""

    key: VerifierKey
    time_s: int | None


class BadSignature(BadField):
    """A signature that claims to be of a known key and is not: the whole note is refused."""

    code = "bad_signature"

    def __init__(self, key: VerifierKey) -> None:
        super().__init__("signature", f"not made by the key {key.name}+{key.id.hex()}")
        self.key = key


def log_origin(log_id: bytes) -> str:
    """The origin of the log with this id, which is also its key's name."""
    return ORIGIN_PREFIX + log_id.hex()


def parse_tree_head(text: str) -> TreeHead:
    """Read a checkpoint's text, strictly."""
    lines = text.split("\n")
    if lines.pop() != "" or len(lines) < 3:
        raise BadField("checkpoint", "fewer than three lines that each end with a newline")
    origin, size, root, *extensions = lines
    if not size.isascii() or not size.isdigit() or len(size) > len(str(SIZE_MAX)):
        raise BadField("size", "not a decimal number")
    head = TreeHead(origin, int(size), decode_base64(root, "root"), tuple(extensions))
    if str(head.size) != size:
        raise BadField("size", "has leading zeroes")
    return head


def sign_tree_head(head: TreeHead, key: VerifierKey, sign: Sign) -> Note:
    """The checkpoint under the log's own signature."""
    return Note(head.text, (Signature(key.name, key.id, sign(head.text.encode())),))


def cosign(note: Note, key: VerifierKey, sign: Sign, time_s: int) -> Note:
    """The checkpoint with one more cosignature, of `time_s` seconds since 1970."""
    return note.with_signature(cosignature(note.text, key, sign, time_s))


def cosignature(text: str, key: VerifierKey, sign: Sign, time_s: int) -> Signature:
    """A witness's statement: at that time, this was the largest tree it had seen of this log."""
    signed = sign(cosigned_message(text, time_s))
    return Signature(key.name, key.id, _TIME.pack(time_s) + signed)


def cosigned_message(text: str, time_s: int) -> bytes:
    """The bytes under a cosignature/v1; the first line keeps them apart from everything else."""
    if not 0 <= time_s <= TIME_MAX:
        raise BadField("time", f"{time_s} is no time that a cosignature can carry")
    return f"cosignature/v1\ntime {time_s}\n{text}".encode()


def verified_signatures(
    note: Note, keys: Iterable[VerifierKey], verify: Verify
) -> tuple[Verified, ...]:
    """The signatures that known keys have made, each key at most once, in the keys' order.

    Lines of unknown keys are ignored: "Verifiers MUST ignore signatures from unknown keys". A
    line that names a known key and is not by it refuses the note: BadSignature.
    """
    found = []
    for key in dict.fromkeys(keys):
        verified = [
            _verified(note.text, key, each, verify) for each in note.signatures if each.is_by(key)
        ]
        if verified:
            found.append(verified[0])
    return tuple(found)


def _verified(text: str, key: VerifierKey, line: Signature, verify: Verify) -> Verified:
    time_s = None
    message, signature = text.encode(), line.signature
    if key.type is SignatureType.COSIGNATURE_V1:
        if len(signature) != _TIME.size + SIGNATURE_BYTES:
            raise BadSignature(key)
        (time_s,) = _TIME.unpack_from(signature)
        if time_s > TIME_MAX:
            raise BadSignature(key)
        message, signature = cosigned_message(text, time_s), signature[_TIME.size :]
    if len(signature) != SIGNATURE_BYTES or not verify(key.public, message, signature):
        raise BadSignature(key)
    return Verified(key, time_s)
