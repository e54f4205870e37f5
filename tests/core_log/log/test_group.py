"""A group in the making: numbers assigned and bytes built, and the log's state untouched."""

from dataclasses import replace
from typing import Any

import pytest

from core_log.log.group import Group
from core_log.log.options import LogOptions
from core_log.log.partitions import Partitions
from core_log.log.producers import Producers
from core_log.log.results import Appended, Refused
from log_format.envelope import add_stamp
from log_format.frame import decode_frame
from log_format.parts import Stamp


@pytest.fixture
def make_group() -> Any:
    partitions, producers = Partitions(), Producers(100)
    partitions.make(("orders", 0)).end = 40

    def make(**options: Any) -> Group:
        return Group(
            partitions,
            producers,
            LogOptions(**options),
            first_leaf=7,
            durable_leaf=5,
            append_us=123,
        )

    return make


def test_leaves_and_offsets_follow_each_other(make_group: Any, frames: Any) -> None:
    group = make_group()
    outcomes = group.add_all(
        [
            frames.frame("orders", [b"a", b"b"]),
            frames.frame("audit", [b"c"]),
            frames.frame("orders", [b"d"]),
        ]
    )
    assert [(each.leaf, each.base_offset, each.count) for each in outcomes] == [
        (7, 40, 2),
        (8, 0, 1),
        (9, 42, 1),
    ]
    assert {each.durability for each in outcomes} == {"committed"}
    assert (group.next_leaf, group.bytes) == (10, sum(map(len, group.frames)))
    assert [batch.frame for batch in group.committed] == group.frames


def test_every_frame_of_a_group_carries_the_same_durable_position(
    make_group: Any, frames: Any
) -> None:
    group = make_group()
    group.add_all([frames.frame() for _ in range(3)])
    stamps = [decode_frame(data).envelope.stamp for data in group.frames]
    assert [(stamp.leaf, stamp.durable_leaf, stamp.append_us) for stamp in stamps] == [
        (7, 5, 123),
        (8, 5, 123),
        (9, 5, 123),
    ]


def test_a_frame_is_written_with_its_body_untouched_and_aligned(
    make_group: Any, frames: Any
) -> None:
    group = make_group()
    sent = frames.frame("orders", [b"odd length"])
    group.add_all([sent])
    written = decode_frame(group.frames[0])
    written.check_hash()
    assert bytes(written.body) == bytes(sent.body)
    assert len(group.frames[0]) % 8 == 0
    assert written.envelope.provenance == sent.envelope.provenance


def test_a_repeat_within_the_group_gets_the_first_ones_place(make_group: Any, frames: Any) -> None:
    group = make_group()
    frame = frames.frame()
    first, second = group.add_all([frame, frame])
    assert second == replace(first, duplicate=True)
    assert len(group.frames) == 1


def test_after_a_refusal_the_producers_next_batches_are_refused_too(
    make_group: Any, frames: Any
) -> None:
    group = make_group()
    frames.frame()
    outcomes = group.add_all([frames.frame(), frames.frame(), frames.frame("audit")])
    assert [getattr(each, "code", "ok") for each in outcomes] == [
        "sequence_gap",
        "sequence_gap",
        "ok",
    ]
    assert outcomes[0].retryable
    assert outcomes[0].members == {"expected_sequence": 0}


def test_a_dropped_group_leaves_no_trace(make_group: Any, frames: Any) -> None:
    frame = frames.frame()
    (first,) = make_group().add_all([frame])
    (again,) = make_group().add_all([frame])
    assert first == again
    assert not again.duplicate


def test_an_applied_group_moves_its_producers(make_group: Any, frames: Any) -> None:
    frame = frames.frame()
    group = make_group()
    group.add_all([frame])
    group.apply_producers()
    (again,) = make_group().add_all([frame])
    assert again.duplicate


def test_a_batch_that_no_gatekeeper_vouches_for_is_refused(make_group: Any, frames: Any) -> None:
    unsigned = frames.frame(provenance=None)
    (refused,) = make_group().add_all([unsigned])
    assert (refused.code, refused.retryable) == ("bad_frame", False)
    (taken,) = make_group(require_provenance=False).add_all([unsigned])
    assert isinstance(taken, Appended)


def test_without_sequences_anything_is_taken(make_group: Any, frames: Any) -> None:
    group = make_group(check_sequences=False)
    frame = frames.frame(sequence=99)
    assert [each.leaf for each in group.add_all([frame, frame])] == [7, 8]


def test_a_frame_that_was_stamped_before_is_refused(make_group: Any, frames: Any) -> None:
    frame = frames.frame()
    stamped = decode_frame(add_stamp(frame.envelope.raw, Stamp(0, 0, 1, 0)) + bytes(frame.body))
    (refused,) = make_group().add_all([stamped])
    assert isinstance(refused, Refused)
    assert refused.code == "bad_frame"
