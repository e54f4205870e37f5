"""The decision log's producer: the same one across restarts, with an epoch that only rises."""

import json
import stat
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from gatekeeper.audit.audit_batch import (
    AuditProducer,
    ProducerFileError,
    Signer,
    audit_frame,
    next_epoch,
)
from gatekeeper.provenance import Sealer
from log_format.envelope import provenance_signed_bytes
from log_format.frame import decode_frame
from log_format.sequence import EPOCH_MAX, SEQUENCE_MAX

KEY = Ed25519PrivateKey.generate()
SIGNER = Signer(Sealer(KEY, "spiffe://example/gatekeeper"), b"\x05" * 32)


def test_the_id_stays_and_the_epoch_rises_with_every_start(tmp_path: Path) -> None:
    first = next_epoch(tmp_path / "p.json")
    second = next_epoch(tmp_path / "p.json")
    assert second.producer_id == first.producer_id
    assert (first.epoch, second.epoch) == (0, 1)
    assert second.sequence == 0


def test_the_epoch_is_on_disk_before_it_is_used(tmp_path: Path) -> None:
    taken = next_epoch(tmp_path / "p.json")
    assert json.loads((tmp_path / "p.json").read_text()) == {
        "producer_id": taken.producer_id,
        "epoch": taken.epoch,
    }


def test_the_file_is_private(tmp_path: Path) -> None:
    path = tmp_path / "audit-producer.json"
    next_epoch(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_after_the_last_epoch_comes_a_new_producer(tmp_path: Path) -> None:
    (tmp_path / "p.json").write_text(json.dumps({"producer_id": 7, "epoch": EPOCH_MAX}))
    taken = next_epoch(tmp_path / "p.json")
    assert taken.producer_id != 7
    assert taken.epoch == 0


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"producer_id":"x","epoch":1}'])
def test_a_damaged_file_says_what_to_do(tmp_path: Path, text: str) -> None:
    (tmp_path / "p.json").write_text(text)
    with pytest.raises(ProducerFileError, match="delete it"):
        next_epoch(tmp_path / "p.json")


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ProducerFileError, match=r"p\.json can't be written"):
        next_epoch(tmp_path / "none" / "p.json")


def test_sequences_are_contiguous_and_wrap_as_everywhere() -> None:
    assert AuditProducer(1, 0, 5).after(3) == AuditProducer(1, 0, 8)
    assert AuditProducer(1, 0, SEQUENCE_MAX).after(1).sequence == 0


def test_a_batch_is_a_sealed_frame_of_the_gatekeepers_own() -> None:
    records: list[dict[str, object]] = [
        {"decision_id": "d1", "at_us": 50, "principal": "a"},
        {"kind": "denials", "last_us": 40, "principal": "b"},
        {"kind": "other"},
    ]
    frame = decode_frame(audit_frame(records, AuditProducer(9, 2, 5), SIGNER, bytes(32), 60))
    frame.check_hash()
    part, producer = frame.envelope.provenance, frame.envelope.producer
    assert part is not None
    assert part.principal == part.gatekeeper_id == "spiffe://example/gatekeeper"
    assert part.thumbprint == b"\x05" * 32
    KEY.public_key().verify(part.signature, provenance_signed_bytes(frame.envelope.raw))
    assert (producer.topic, producer.partition) == ("_audit", 0)
    assert (producer.producer_id, producer.epoch, producer.first_sequence) == (9, 2, 5)
    assert (producer.count, producer.first_event_us, producer.greatest_event_us) == (3, 50, 60)
    columns = frame.columns()
    assert [json.loads(value or b"") for value in columns.value] == records
    assert list(columns.id) == [b"d1", None, None]
    assert list(columns.key) == [b"a", b"b", None]
