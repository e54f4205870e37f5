"""Replaying envelopes brings partitions and producers to where they were."""

from typing import Any

import pytest

from core_log.log.partitions import Partitions
from core_log.log.producers import ProducerKey, Producers
from core_log.log.results import LostRange
from core_log.log.state import State, stamp_of
from log_format.envelope import add_stamp, decode_envelope
from log_format.parts import Stamp


@pytest.fixture
def stamped(frames: Any) -> Any:
    def make(
        leaf: Any, base: Any, values: Any = (b"v",), append_us: Any = 100, **kwargs: Any
    ) -> Any:
        frame = frames.frame("orders", values, **kwargs)
        return decode_envelope(add_stamp(frame.envelope.raw, Stamp(leaf, base, append_us, 0)))

    return make


def new_state(*, check_sequences: bool = True) -> State:
    return State(Partitions(), Producers(10), 0, check_sequences)


def test_a_replay_moves_ends_times_and_sequences(stamped: Any) -> None:
    state = new_state()
    assert state.apply(stamped(0, 0, [b"a", b"b"], append_us=500)) is None
    assert state.apply(stamped(1, 2, [b"c"], append_us=300)) is None
    partition = state.partitions.get(("orders", 0))
    assert (partition.end, partition.greatest_us, state.leaf) == (3, 500, 2)
    producer = state.producers.get(ProducerKey("billing", 1, "orders", 0))
    assert producer.next_sequence == 3


def test_offsets_that_are_missing_are_named(stamped: Any) -> None:
    state = new_state()
    state.apply(stamped(0, 0))
    assert state.apply(stamped(4, 9)) == LostRange(1, 4, "orders", 0, 1, 9)
    assert state.partitions.get(("orders", 0)).end == 10


def test_without_sequences_no_producer_is_remembered(stamped: Any) -> None:
    state = new_state(check_sequences=False)
    state.apply(stamped(0, 0))
    assert len(state.producers) == 0


def test_a_frame_without_a_stamp_is_no_frame_of_a_log(frames: Any) -> None:
    with pytest.raises(ValueError, match="stamp"):
        stamp_of(frames.frame().envelope)
