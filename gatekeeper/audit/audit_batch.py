"""The decision log's own producer: who it is across restarts, and its batches as frames.

The gatekeeper writes `_audit` as a producer like any other: an id and an epoch that survive in a
file, contiguous sequences, and its own provenance. A restart raises the epoch and begins at
sequence 0, so nothing but these two numbers must be kept. May import `log_format`.
"""

import json
import os
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import orjson

from gatekeeper.audit.decisions import new_decision_id
from gatekeeper.provenance import Sealer
from hosting.lifecycle import StartError
from log_format.body import encode_body
from log_format.frame import body_padding, decode_frame, encode_frame
from log_format.parts import Producer, Provenance
from log_format.sequence import EPOCH_MAX, sequence_after

AUDIT_TOPIC: Final = "_audit"
AUDIT_RULE: Final = "gatekeeper"
"""The rule that a batch of `_audit` names: no line of the policy, the gatekeeper itself."""
_JSON: Final = b"application/json"


class ProducerFileError(StartError):
    """The file that keeps the producer's id can't be used; the message says what to do."""


@dataclass(frozen=True, slots=True)
class AuditProducer:
    """The next batch's numbers. Frozen: a batch that is tried again keeps its own."""

    producer_id: int
    epoch: int
    sequence: int = 0

    def after(self, count: int) -> "AuditProducer":
        """The numbers after a batch of `count` records was accepted."""
        return replace(self, sequence=sequence_after(self.sequence, count))


@dataclass(frozen=True, slots=True)
class Signer:
    """What a batch of `_audit` says about its sender: the gatekeeper itself."""

    sealer: Sealer
    thumbprint: bytes


def next_epoch(path: Path) -> AuditProducer:
    """Raise the epoch in the file and return it, durable before it is used for the first time.

    A file that is not there makes a new producer; so does an epoch that can't be raised any more.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        producer = _new_producer()
    except OSError as error:
        raise ProducerFileError(f"{path.name} can't be read: {error.strerror}") from error
    else:
        producer = _raised(path, text)
    _write_durably(path, producer)
    return producer


def _new_producer() -> AuditProducer:
    return AuditProducer(secrets.randbits(63), 0)


def _raised(path: Path, text: str) -> AuditProducer:
    try:
        kept = json.loads(text)
        producer_id, epoch = int(kept["producer_id"]), int(kept["epoch"])
    except (ValueError, TypeError, KeyError) as error:
        raise ProducerFileError(
            f"{path.name} is damaged; delete it, and the gatekeeper begins as a new producer"
        ) from error
    if epoch >= EPOCH_MAX:
        return _new_producer()
    return AuditProducer(producer_id, epoch + 1)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _write_durably(path: Path, producer: AuditProducer) -> None:
    draft = path.with_suffix(".new")
    text = json.dumps({"producer_id": producer.producer_id, "epoch": producer.epoch})
    try:
        with open(draft, "w", encoding="utf-8", opener=_private) as file:
            file.write(text + "\n")
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        raise ProducerFileError(f"{path.name} can't be written: {error.strerror}") from error


def audit_frame(
    records: Sequence[dict[str, object]],
    producer: AuditProducer,
    signer: Signer,
    policy_hash: bytes,
    now_us: int,
) -> bytes:
    """Records as one sealed batch of `_audit`, ready to send and to send again."""
    times = [_time_of(record, now_us) for record in records]
    body = encode_body(
        times,
        [orjson.dumps(record) for record in records],
        ids=[_text(record.get("decision_id")) for record in records],
        keys=[_text(record.get("principal")) for record in records],
        content_types=[_JSON] * len(records),
    )
    part = Producer(
        topic=AUDIT_TOPIC,
        partition=0,
        producer_id=producer.producer_id,
        epoch=producer.epoch,
        first_sequence=producer.sequence,
        count=len(records),
        first_event_us=times[0],
        greatest_event_us=max(times),
        body_sha256=bytes(32),
    )
    frame = decode_frame(encode_frame(part, body))
    sealed = signer.sealer.seal(frame.envelope.raw, _provenance(signer, policy_hash, now_us))
    return b"".join((sealed, frame.body, body_padding(frame.envelope.body_len)))


def _provenance(signer: Signer, policy_hash: bytes, now_us: int) -> Provenance:
    return Provenance(
        principal=signer.sealer.gatekeeper_id,
        issuer="",
        client_id="",
        thumbprint=signer.thumbprint,
        token_id="",
        decision_id=new_decision_id(now_us),
        policy_hash=policy_hash,
        rule=AUDIT_RULE,
        gatekeeper_id=signer.sealer.gatekeeper_id,
        received_us=now_us,
    )


def _time_of(record: dict[str, object], now_us: int) -> int:
    at_us = record.get("at_us", record.get("last_us"))
    return at_us if isinstance(at_us, int) else now_us


def _text(value: object) -> bytes | None:
    return value.encode() if isinstance(value, str) else None
