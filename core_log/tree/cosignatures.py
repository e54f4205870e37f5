"""Cosignatures that witnesses send: which are taken, and onto which checkpoint. Pure.

Where the witnesses' keys are configured, a signature must be one of theirs. Where they are not,
the core takes any that is well made, up to a limit: it is a letter box, and whoever checks a proof
decides whom to believe.
"""

import struct
from collections.abc import Sequence
from typing import Final

from core_log.tree.checkpoint_notes import SignedHead
from core_log.tree.signing import verify
from log_format.checkpoint_note import verified_signatures
from log_format.errors import BadField, FormatError
from log_format.note import SIGNATURE_BYTES, Note, Signature, VerifierKey, parse_note

COSIGNERS_MAX: Final = 16
"""Cosignatures on one checkpoint, of any witnesses: what every verifier of notes has to read."""
AHEAD_S_MAX: Final = 300
"""How far a cosignature's time may lie ahead of the core's clock: clocks differ by minutes."""

_TIME: Final = struct.Struct(">Q")


class BadCosignature(Exception):
    """A note that carries no cosignature that can be taken; the message says why."""


def parse_offered(value: object) -> Note:
    """The note of a `POST /v1/cosignatures` body."""
    if not isinstance(value, dict) or set(value) != {"checkpoint"}:
        raise BadCosignature("the body must be an object with the one member `checkpoint`")
    text = value["checkpoint"]
    if not isinstance(text, str):
        raise BadCosignature("checkpoint: must be a signed note as a string")
    try:
        return parse_note(text)
    except FormatError as error:
        raise BadCosignature(f"checkpoint: {error}") from error


def with_cosignatures(
    held: SignedHead, offered: Note, witnesses: Sequence[VerifierKey], *, now_s: int
) -> SignedHead:
    """`held` with the cosignatures that `offered` adds, or BadCosignature if it adds none."""
    if offered.text != held.note.text:
        raise BadCosignature(
            f"checkpoint: another text than the one that was signed with {held.size} leaves"
        )
    own = held.note.signatures[0]
    lines = [each for each in offered.signatures if (each.name, each.key_id) != _key_of(own)]
    if witnesses:
        lines = _of_witnesses(Note(offered.text, tuple(lines)), witnesses)
    if not lines:
        raise BadCosignature("checkpoint: carries no cosignature of a witness that is known here")
    note = held.note
    for line in lines:
        if cosigned_at(line) is None or (cosigned_at(line) or 0) > now_s + AHEAD_S_MAX:
            raise BadCosignature(f"checkpoint: {line.name} made no cosignature/v1 of this time")
        note = note.with_signature(line)
    if len(note.signatures) > COSIGNERS_MAX + 1:
        raise BadCosignature(f"checkpoint: more than {COSIGNERS_MAX} cosignatures")
    return SignedHead(note, held.head)


def cosigned_at(line: Signature) -> int | None:
    """The time of a cosignature/v1 in seconds since 1970; None for any other signature."""
    if len(line.signature) != _TIME.size + SIGNATURE_BYTES:
        return None
    seconds: int = _TIME.unpack_from(line.signature)[0]
    return seconds if seconds < 1 << 63 else None


def newest_cosigning(signed: SignedHead) -> int | None:
    """When a checkpoint was last cosigned; None if it never was."""
    times = [cosigned_at(line) for line in signed.note.signatures[1:]]
    return max((each for each in times if each is not None), default=None)


def _of_witnesses(note: Note, witnesses: Sequence[VerifierKey]) -> list[Signature]:
    try:
        known = [each.key for each in verified_signatures(note, witnesses, verify)]
    except BadField as error:
        raise BadCosignature(f"checkpoint: {error}") from error
    return [line for line in note.signatures if any(line.is_by(key) for key in known)]


def _key_of(line: Signature) -> tuple[str, bytes]:
    return line.name, line.key_id
