"""One segment, frame by frame, with damage in every kind of place."""

from typing import Any

import pytest

from core_log.log.index import Index
from core_log.log.partitions import Partitions
from core_log.log.producers import Producers
from core_log.log.recovery import Action
from core_log.log.results import LostRange
from core_log.log.scan import Window
from core_log.log.state import State
from core_log.log.walk import Findings, Ground, Walk
from log_format.envelope import add_stamp
from log_format.layout import SEGMENT_HEAD_BYTES
from log_format.parts import Stamp

FIRST = 10


class Segment:
    """A segment of groups: each frame's durable position is its group's first leaf."""

    def __init__(self, frames: Any, groups: list[int]) -> None:
        self.frames: list[bytearray] = []
        leaf = FIRST
        for size in groups:
            durable = leaf
            for _ in range(size):
                frame = frames.frame("orders", [b"leaf %d" % leaf])
                stamp = Stamp(leaf, leaf - FIRST, 1000 + leaf, durable)
                data = add_stamp(frame.envelope.raw, stamp) + bytes(frame.body)
                self.frames.append(bytearray(data))
                leaf += 1
        self.findings = Findings()
        self.index = Index(FIRST)
        self.state = State(Partitions(), Producers(10), 0, check_sequences=True)

    def position(self, number: int) -> int:
        return SEGMENT_HEAD_BYTES + sum(map(len, self.frames[:number]))

    def walk(
        self, *, proven: Any = 0, following: Any = None, head_sound: Any = True, cut_to: Any = None
    ) -> Any:
        data = bytes(SEGMENT_HEAD_BYTES) + b"".join(self.frames)
        data = data[:cut_to]
        window = Window(lambda at, length: data[at : at + length], len(data))
        ground = Ground("s", self.index, SEGMENT_HEAD_BYTES, proven, following, head_sound)
        return Walk(ground, window, {}, self.findings, self.state).run()


@pytest.fixture
def segment_of(frames: Any) -> Any:
    return lambda *groups: Segment(frames, list(groups))


def damage_envelope(segment: Segment, number: int) -> None:
    segment.frames[number][30] ^= 1


def damage_body(segment: Segment, number: int) -> None:
    segment.frames[number][-20] ^= 1


def test_a_sound_segment_is_indexed_and_replayed(segment_of: Any) -> None:
    segment = segment_of(2, 3)
    walked = segment.walk()
    assert (walked.action, walked.next_leaf, walked.end) == (
        Action.NOTHING,
        15,
        segment.position(5),
    )
    assert (len(segment.index), segment.findings.scanned_frames) == (5, 5)
    assert segment.state.partitions.get(("orders", 0)).end == 5
    assert segment.index.runs["orders", 0].greatest_us == 1014


@pytest.mark.parametrize("damage", [damage_envelope, damage_body])
@pytest.mark.parametrize("number", [0, 1, 2])
def test_damage_below_a_later_durable_position_is_rot(
    segment_of: Any, damage: Any, number: Any
) -> None:
    segment = segment_of(1, 2, 2)
    damage(segment, number)
    walked = segment.walk()
    assert (walked.action, walked.next_leaf) == (Action.NOTHING, 15)
    (quarantined,) = segment.findings.quarantined
    assert (quarantined.position, quarantined.leaf) == (segment.position(number), FIRST + number)
    assert quarantined.length == len(segment.frames[number])
    assert segment.findings.lost[0].first_leaf == FIRST + number
    assert len(segment.index) == 5
    assert segment.index.lost == (1 if damage is damage_envelope else 0)


@pytest.mark.parametrize("damage", [damage_envelope, damage_body])
@pytest.mark.parametrize("number", [3, 4])
def test_damage_in_the_last_group_is_a_torn_tail(segment_of: Any, damage: Any, number: Any) -> None:
    segment = segment_of(1, 2, 2)
    damage(segment, number)
    walked = segment.walk()
    assert (walked.action, walked.end) == (Action.CUT, segment.position(number))
    assert walked.next_leaf == FIRST + number
    assert walked.whole_frames == 4 - number
    assert not segment.findings.quarantined
    assert len(segment.index) == number


@pytest.mark.parametrize("damage", [damage_envelope, damage_body])
def test_a_checkpoint_proves_the_last_group_too(segment_of: Any, damage: Any) -> None:
    segment = segment_of(1, 2, 2)
    damage(segment, 4)
    walked = segment.walk(proven=15)
    assert (walked.action, walked.next_leaf) == (Action.QUARANTINE_AND_LEAVE, 15)
    assert segment.index.end_leaf == 15


def test_rot_and_a_torn_tail_in_one_segment_are_told_apart(segment_of: Any) -> None:
    segment = segment_of(1, 1, 3)
    damage_envelope(segment, 0)
    damage_envelope(segment, 3)
    walked = segment.walk()
    assert (walked.action, walked.end) == (Action.CUT, segment.position(3))
    assert walked.whole_frames == 1
    assert [each.leaf for each in segment.findings.quarantined] == [FIRST]
    assert len(segment.index) == 3


def test_a_lost_frame_names_the_offsets_that_it_held(segment_of: Any) -> None:
    segment = segment_of(1, 1, 1)
    damage_envelope(segment, 1)
    segment.walk()
    assert segment.findings.lost == [
        LostRange(11, 12),
        LostRange(11, 12, "orders", 0, 1, 2),
    ]


def test_a_file_cut_off_inside_a_frame_is_torn_unless_that_frame_was_synced(
    segment_of: Any,
) -> None:
    segment = segment_of(1, 1)
    walked = segment.walk(cut_to=segment.position(2) - 10)
    assert (walked.action, walked.end) == (Action.CUT, segment.position(1))
    segment = segment_of(1, 1)
    walked = segment.walk(cut_to=segment.position(2) - 10, proven=12)
    assert (walked.action, walked.next_leaf) == (Action.QUARANTINE_AND_LEAVE, 12)
    assert segment.index.end_leaf == 12


def test_leaves_that_a_checkpoint_knows_and_the_file_has_not_are_missed(segment_of: Any) -> None:
    segment = segment_of(1, 1)
    walked = segment.walk(proven=20)
    assert (walked.action, walked.next_leaf) == (Action.QUARANTINE_AND_LEAVE, 20)
    assert segment.findings.lost == [LostRange(12, 20)]


def test_a_sealed_segment_owes_no_more_than_up_to_the_next(segment_of: Any) -> None:
    segment = segment_of(1, 1)
    assert segment.walk(proven=500, following=12).action is Action.NOTHING
    assert not segment.findings.lost


def test_a_head_is_missed_only_if_it_was_ever_there(segment_of: Any) -> None:
    walked = segment_of().walk(head_sound=False)
    assert walked.action is Action.DISCARD
    segment = segment_of(1)
    assert segment.walk(head_sound=False).action is Action.NOTHING
    assert segment.findings.quarantined[0].position == 0
    proven = segment_of()
    assert proven.walk(head_sound=False, proven=12, cut_to=20).action is (
        Action.QUARANTINE_AND_LEAVE
    )
    assert proven.index.end_leaf == 12


def test_what_the_checkpoint_covers_is_not_replayed_again(segment_of: Any) -> None:
    segment = segment_of(3)
    segment.state.leaf = 12
    segment.walk()
    assert segment.state.leaf == 13
    assert len(segment.index) == 3
    assert segment.findings.lost == [LostRange(12, 12, "orders", 0, 0, 2)]
