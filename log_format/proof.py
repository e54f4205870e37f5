"""A message's proof as one JSON document, and the check that needs nothing else but public keys.

The envelope is proven by the path to the root of a checkpoint that the core signed and witnesses
cosigned; the sender by the gatekeeper's signature in the envelope; the content by the body's hash
there. Every other member repeats what the envelope says, for people, and is held against it.
Signatures are verified by a callable: this package imports no cryptography.
"""

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any, Final

from log_format.checkpoint_note import (
    TreeHead,
    Verified,
    Verify,
    parse_tree_head,
    verified_signatures,
)
from log_format.envelope import Envelope, decode_envelope, provenance_signed_bytes
from log_format.errors import BadField, FormatError
from log_format.leaf import leaf_hash
from log_format.limits import BODY_BYTES_MAX, ENVELOPE_BYTES_MAX
from log_format.note import (
    NOTE_BYTES_MAX,
    Note,
    SignatureType,
    VerifierKey,
    decode_base64,
    encode_base64,
    parse_note,
)
from log_format.parts import Provenance, Stamp
from log_format.tree import HASH_BYTES, PROOF_HASHES_MAX, verify_inclusion

PROOF_FORMAT: Final = "sidegate-proof/1"
PROOF_BYTES_MAX: Final = (
    BODY_BYTES_MAX * 4 // 3 + 2 * ENVELOPE_BYTES_MAX + 6 * NOTE_BYTES_MAX + 64 * 1024
)
"""A whole document: the greatest body in base64, and everything around it, escaped."""
_INT64_MAX: Final = 2**63 - 1
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class NotProven(Exception):
    """The document does not prove what it claims. The message names the member and why."""


@dataclass(frozen=True, slots=True)
class Proof:
    """The members of the document, each of its type; whether they are true is `check_proof`'s."""

    format: str
    topic: str
    partition: int
    offset: int
    principal: str
    gatekeeper: str
    appended: str
    leaf: int
    size: int
    envelope: bytes
    hashes: tuple[bytes, ...]
    checkpoint: str
    body: bytes | None

    def as_json(self) -> dict[str, Any]:
        """The document: bytes in hex, the body in base64, or null where it is not part of it."""
        document = {field.name: getattr(self, field.name) for field in fields(self)}
        return document | {
            "envelope": self.envelope.hex(),
            "hashes": [each.hex() for each in self.hashes],
            "body": None if self.body is None else encode_base64(self.body),
        }


@dataclass(frozen=True, slots=True)
class Proven:
    """What a checked document proves, and by whose signatures."""

    envelope: Envelope
    provenance: Provenance
    stamp: Stamp
    offset: int
    head: TreeHead
    cosigned: tuple[Verified, ...]
    body: bytes | None


def make_proof(
    envelope: bytes,
    offset: int,
    *,
    size: int,
    hashes: Sequence[bytes],
    checkpoint: str,
    body: bytes | None,
) -> Proof:
    """The document for the message at `offset`, which lies in this envelope's batch."""
    decoded = decode_envelope(envelope)
    provenance, stamp = _parts(decoded)
    return Proof(
        format=PROOF_FORMAT,
        topic=decoded.producer.topic,
        partition=decoded.producer.partition,
        offset=offset,
        principal=provenance.principal,
        gatekeeper=provenance.gatekeeper_id,
        appended=appended_text(stamp.append_us),
        leaf=stamp.leaf,
        size=size,
        envelope=envelope,
        hashes=tuple(hashes),
        checkpoint=checkpoint,
        body=body,
    )


def appended_text(time_us: int) -> str:
    """RFC 3339 in UTC with microseconds; a plain number where no calendar reaches."""
    try:
        moment = _EPOCH + timedelta(microseconds=time_us)
    except OverflowError:
        return str(time_us)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ").rjust(27, "0")


def read_proof(text: str | bytes) -> Proof:
    """Read a document strictly: exactly these members, each once, in the one way to write it."""
    if len(text) > PROOF_BYTES_MAX:
        raise NotProven(f"the document is longer than {PROOF_BYTES_MAX} bytes")
    try:
        document = json.loads(
            text, object_pairs_hook=_object, parse_float=_no_number, parse_constant=_no_number
        )
    except (ValueError, RecursionError) as error:
        raise NotProven(f"the document is no sound JSON: {error}") from error
    if not isinstance(document, dict):
        raise NotProven("the document is no JSON object")
    known = {field.name for field in fields(Proof)}
    if document.keys() != known:
        wrong = sorted(map(repr, document.keys() ^ known))
        raise NotProven(f"members are missing or unknown: {', '.join(wrong)}")
    if document["format"] != PROOF_FORMAT:
        raise NotProven(f"format: must be {PROOF_FORMAT}; another version may read this one")
    return Proof(
        format=PROOF_FORMAT,
        topic=_text(document, "topic"),
        partition=_number(document, "partition"),
        offset=_number(document, "offset"),
        principal=_text(document, "principal"),
        gatekeeper=_text(document, "gatekeeper"),
        appended=_text(document, "appended"),
        leaf=_number(document, "leaf"),
        size=_number(document, "size"),
        envelope=_from_hex(_text(document, "envelope"), "envelope"),
        hashes=_hashes(document["hashes"]),
        checkpoint=_text(document, "checkpoint"),
        body=None if document["body"] is None else _base64(_text(document, "body"), "body"),
    )


def check_proof(
    proof: Proof,
    core: VerifierKey,
    witnesses: Collection[VerifierKey],
    verify: Verify,
    *,
    ignore_unknown: bool = False,
) -> Proven:
    """What the document proves, or NotProven.

    With witnesses, each of them must be in the checkpoint's signatures or have vouched for the
    sender, and at least one must have cosigned. A signature line of a key that was not given is
    refused, so that no line can be changed unnoticed; `ignore_unknown` passes over it instead.
    """
    envelope, provenance, stamp = _proven_envelope(proof)
    _check_words(proof, envelope, provenance, stamp)
    try:
        head, cosigned = _check_checkpoint(proof, core, witnesses, verify, ignore_unknown)
    except FormatError as error:
        raise NotProven(f"checkpoint: {error}") from error
    _check_sender(envelope, provenance, witnesses, verify)
    if not verify_inclusion(
        leaf_hash(proof.envelope), stamp.leaf, head.size, proof.hashes, head.root
    ):
        raise NotProven("hashes: do not lead from the envelope to the checkpoint's root")
    if proof.body is not None and sha256(proof.body).digest() != envelope.producer.body_sha256:
        raise NotProven("body: its SHA-256 is not the one in the envelope")
    return Proven(envelope, provenance, stamp, proof.offset, head, cosigned, proof.body)


def _proven_envelope(proof: Proof) -> tuple[Envelope, Provenance, Stamp]:
    try:
        envelope = decode_envelope(proof.envelope)
        parts = _parts(envelope)
    except FormatError as error:
        raise NotProven(f"envelope: {error}") from error
    if len(envelope.raw) != len(proof.envelope):
        raise NotProven("envelope: has bytes behind its end")
    return envelope, *parts


def _check_words(proof: Proof, envelope: Envelope, provenance: Provenance, stamp: Stamp) -> None:
    """What stands in the document for people is what the envelope says."""
    for name, claimed, true in (
        ("topic", proof.topic, envelope.producer.topic),
        ("partition", proof.partition, envelope.producer.partition),
        ("principal", proof.principal, provenance.principal),
        ("gatekeeper", proof.gatekeeper, provenance.gatekeeper_id),
        ("appended", proof.appended, appended_text(stamp.append_us)),
        ("leaf", proof.leaf, stamp.leaf),
    ):
        if claimed != true:
            raise NotProven(f"{name}: says {claimed!r}, the envelope {true!r}")
    last = stamp.base_offset + envelope.producer.count - 1
    if not stamp.base_offset <= proof.offset <= last:
        raise NotProven(
            f"offset: {proof.offset} is not in the envelope's {stamp.base_offset} to {last}"
        )


def _check_checkpoint(
    proof: Proof,
    core: VerifierKey,
    witnesses: Collection[VerifierKey],
    verify: Verify,
    ignore_unknown: bool,
) -> tuple[TreeHead, tuple[Verified, ...]]:
    note = parse_note(proof.checkpoint)
    head = parse_tree_head(note.text)
    if head.origin != core.name:
        raise NotProven(f"checkpoint: is of the log {head.origin}, the key of {core.name}")
    if head.size != proof.size:
        raise NotProven(f"size: says {proof.size}, the checkpoint {head.size}")
    found = verified_signatures(note, (core, *witnesses), verify)
    if not any(each.key == core for each in found):
        raise NotProven(f"checkpoint: has no signature of {core.name}+{core.id.hex()}")
    cosigned = tuple(each for each in found if each.key != core)
    if witnesses and not cosigned:
        raise NotProven("checkpoint: none of the given witnesses has cosigned it")
    _check_lines(note, len(found), ignore_unknown)
    return head, cosigned


def _check_lines(note: Note, known: int, ignore_unknown: bool) -> None:
    names = [(line.name, line.key_id) for line in note.signatures]
    if len(set(names)) != len(names):
        raise NotProven("checkpoint: one key's signature stands twice")
    if len(names) != known and not ignore_unknown:
        raise NotProven(
            "checkpoint: has a signature of a key that was not given; give it, or ignore it"
        )


def _check_sender(
    envelope: Envelope,
    provenance: Provenance,
    witnesses: Collection[VerifierKey],
    verify: Verify,
) -> None:
    """The gatekeeper signed who the sender is; without any witness's key that stays a claim."""
    if not witnesses:
        return
    if not sender_is_proven(envelope, provenance, witnesses, verify):
        raise NotProven(
            f"principal: no given key of {provenance.gatekeeper_id} made the signature that"
            " vouches for the sender"
        )


def sender_is_proven(
    envelope: Envelope,
    provenance: Provenance,
    gatekeepers: Collection[VerifierKey],
    verify: Verify,
) -> bool:
    """Whether one of these gatekeepers' keys made the signature in the envelope."""
    message = provenance_signed_bytes(envelope.raw)
    return any(
        key.name == provenance.gatekeeper_id and verify(key.public, message, provenance.signature)
        for key in gatekeepers
        if key.type is SignatureType.COSIGNATURE_V1
    )


def _parts(envelope: Envelope) -> tuple[Provenance, Stamp]:
    if envelope.provenance is None or envelope.stamp is None:
        raise BadField("envelope", "has no provenance or no stamp: it is in no log")
    return envelope.provenance, envelope.stamp


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a member stands twice")
    return found


def _no_number(text: str) -> Any:
    raise ValueError(f"{text} is not a whole number")


def _text(document: dict[str, Any], name: str) -> str:
    value = document[name]
    if not isinstance(value, str):
        raise NotProven(f"{name}: must be a string")
    return value


def _number(document: dict[str, Any], name: str) -> int:
    value = document[name]
    if type(value) is not int or not 0 <= value <= _INT64_MAX:
        raise NotProven(f"{name}: must be a whole number from 0 on")
    return value


def _from_hex(text: str, name: str) -> bytes:
    try:
        data = bytes.fromhex(text)
    except ValueError:
        data = b""
    if data.hex() != text:
        raise NotProven(f"{name}: must be hex in lower case")
    return data


def _base64(text: str, name: str) -> bytes:
    try:
        return decode_base64(text, name)
    except FormatError as error:
        raise NotProven(str(error)) from error


def _hashes(value: object) -> tuple[bytes, ...]:
    if not isinstance(value, list) or len(value) > PROOF_HASHES_MAX:
        raise NotProven(f"hashes: must be a list of at most {PROOF_HASHES_MAX}")
    hashes = tuple(_from_hex(each, "hashes") if isinstance(each, str) else b"" for each in value)
    if any(len(each) != HASH_BYTES for each in hashes):
        raise NotProven("hashes: each must be a SHA-256 in hex")
    return hashes
