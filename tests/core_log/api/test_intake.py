"""What may enter the log, and what is refused at the door."""

import struct
from dataclasses import replace
from hashlib import sha256
from typing import Any

import pytest

from core_log.api import intake
from core_log.api.intake import FRAMES_MAX, BadFrames, check, outcome_json, split
from core_log.log.engine import Announced
from core_log.log.results import Appended, Refused
from log_format.envelope import (
    HEAD_BYTES,
    Codec,
    add_provenance,
    add_stamp,
    decode_envelope,
    new_envelope,
    without_body,
)
from log_format.frame import Frame, decode_frame
from log_format.parts import Producer, Provenance, Stamp


def test_a_body_is_split_into_views_of_its_frames(frames: Any) -> None:
    body = frames.encoded("a", [b"1"]) + frames.encoded("b", [b"2", b"3"])
    whole = split(body)
    assert [each.envelope.producer.topic for each in whole] == ["a", "b"]
    assert all(isinstance(each.body, memoryview) and each.body.obj is body for each in whole)
    assert [check(each) for each in whole] == [None, None]


def test_a_broken_run_names_the_frame(frames: Any) -> None:
    good = frames.encoded("a", [b"1"])
    for tail, reason in ((good[:-1], "truncated"), (b"x" * 40, "bad_magic"), (b"S", "truncated")):
        with pytest.raises(BadFrames, match="frame 1 of the request") as caught:
            split(good + tail)
        assert caught.value.members == {"frame": 1, "reason": reason}


def test_every_flipped_bit_of_a_frame_is_refused(frames: Any) -> None:
    good = frames.encoded("a", [b"1"])
    for position in range(len(good) * 8):
        bad = bytearray(good)
        bad[position // 8] ^= 1 << position % 8
        try:
            (frame,) = split(bytes(bad))
        except BadFrames:
            continue
        refused = check(frame)
        assert refused is not None, f"bit {position}"
        assert refused.code == "bad_frame"


def test_an_empty_body_is_refused() -> None:
    with pytest.raises(BadFrames, match="the body is empty"):
        split(b"")


def test_a_request_has_a_limit_on_its_frames(frames: Any) -> None:
    frame = frames.encoded("a", [b"1"], sequence=0)
    assert len(split(frame * FRAMES_MAX)) == FRAMES_MAX
    with pytest.raises(BadFrames, match="send it in parts"):
        split(frame * (FRAMES_MAX + 1))


def test_a_batch_without_provenance_is_refused(frames: Any) -> None:
    refused = check(frames.frame(provenance=None))
    assert refused is not None
    assert "provenance" in refused.detail


def test_a_batch_that_was_in_a_log_already_is_refused(frames: Any) -> None:
    frame = frames.frame()
    stamped = add_stamp(frame.envelope.raw, Stamp(0, 0, 0, 0))
    for envelope, body in ((stamped, bytes(frame.body)), (without_body(stamped), b"")):
        refused = check(Frame(decode_envelope(envelope), body))
        assert refused is not None
        assert "no stamp" in refused.detail


def with_body(body: bytes, *, provenance: Provenance, codec: Codec, length: int) -> Frame:
    producer = Producer("a", 0, 1, 0, 0, 1, 1, 1, sha256(body).digest())
    envelope = new_envelope(producer, body_len=len(body), uncompressed_len=length, codec=codec)
    return Frame(decode_envelope(add_provenance(envelope, provenance)), body)


def test_a_body_that_is_no_table_of_records_is_refused(provenance: Provenance) -> None:
    junk = b"\xff" * 256
    refused = check(with_body(junk, provenance=provenance, codec=Codec.NONE, length=256))
    assert refused is not None
    assert refused.code == "bad_frame"


def test_a_body_that_lies_about_its_uncompressed_size_is_not_expanded(
    provenance: Provenance,
) -> None:
    # One zstd frame that declares 1 MiB and whose 8,000 repeat blocks would expand to 1 GiB.
    block = struct.pack("<I", (128 * 1024 << 3) | 2)[:3] + b"A"
    last = struct.pack("<I", (128 * 1024 << 3) | 3)[:3] + b"A"
    head = struct.pack("<IBBI", 0xFD2FB528, 2 << 6, 7 << 3, 1 << 20)
    bomb = head + block * 7999 + last
    refused = check(with_body(bomb, provenance=provenance, codec=Codec.ZSTD, length=1 << 20))
    assert refused is not None
    assert "zstd" in refused.detail


def test_a_compressed_batch_is_accepted_and_an_encrypted_one_is_not_opened(
    frames: Any, provenance: Provenance
) -> None:
    assert check(frames.frame(values=[b"x" * 1000], codec=Codec.ZSTD)) is None
    frame = with_body(b"sealed", provenance=provenance, codec=Codec.NONE, length=6)
    raw = bytearray(new_envelope(
        frame.envelope.producer, body_len=6, uncompressed_len=6, encrypted=True
    ))  # fmt: skip
    sealed = Frame(decode_envelope(add_provenance(bytes(raw), provenance)), b"sealed")
    assert check(sealed) is None
    assert check(Frame(sealed.envelope, b"opened")) is not None, "its hash is still checked"


@pytest.mark.parametrize(
    ("topic", "principal", "gatekeeper", "allowed"),
    [
        ("_audit", "gk-1", "gk-1", True),
        ("_audit", "billing", "gk-1", False),
        ("_audit", "", "", False),
        ("_control", "gk-1", "gk-1", False),
        ("_other", "gk-1", "gk-1", False),
        ("orders", "billing", "gk-1", True),
    ],
)
def test_the_systems_topics_are_written_by_gatekeepers_about_themselves(
    frames: Any, provenance: Provenance, topic: str, principal: str, gatekeeper: str, allowed: bool
) -> None:
    says = replace(provenance, principal=principal, gatekeeper_id=gatekeeper)
    refused = check(frames.frame(topic, provenance=says))
    assert (refused is None) == allowed
    if refused is not None:
        assert refused.code == "denied"


def test_the_work_of_a_check_counts_what_a_body_expands_to(frames: Any) -> None:
    packed = frames.frame(values=[bytes(100_000)], codec=Codec.ZSTD)
    assert intake.work_bytes([packed]) > 100_000


def test_outcomes_have_the_members_that_the_wire_promises(frames: Any) -> None:
    appended = Appended("a", 1, 5, 2, 9, 77, "committed", duplicate=True)
    assert outcome_json(appended) == {
        "topic": "a",
        "partition": 1,
        "base_offset": 5,
        "count": 2,
        "leaf": 9,
        "append_us": 77,
        "durability": "committed",
        "duplicate": True,
    }
    memory = outcome_json(Announced("a", 1, 5, 2, 77, duplicate=False))
    assert (memory["leaf"], memory["durability"]) == (None, "memory")
    refused = Refused("a", 1, "sequence_gap", "why", True, {"expected_sequence": 4})
    assert outcome_json(refused) == {
        "topic": "a",
        "partition": 1,
        "error": "sequence_gap",
        "detail": "why",
        "retryable": True,
        "expected_sequence": 4,
    }


def test_a_sample_frame_is_longer_than_its_head(frames: Any) -> None:
    assert len(frames.encoded()) > HEAD_BYTES
    assert decode_frame(frames.encoded()).envelope.provenance is not None
