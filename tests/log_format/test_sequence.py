"""Sequences are contiguous, and wrap as Kafka's do."""

from log_format.sequence import SEQUENCE_MAX, sequence_after


def test_the_next_sequence_follows_the_last_record() -> None:
    assert sequence_after(0, 1) == 1
    assert sequence_after(40, 3) == 43


def test_a_sequence_wraps_to_zero_after_the_greatest_int32() -> None:
    assert sequence_after(SEQUENCE_MAX, 1) == 0
    assert sequence_after(SEQUENCE_MAX - 1, 5) == 3
