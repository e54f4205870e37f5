"""The log that verification is measured with is sound, or its time would mean nothing."""

from bench.verify_log import RECORDS, SEGMENT_BATCHES, measure


def test_the_measured_log_is_sound_beyond_its_first_segment() -> None:
    figures = measure(SEGMENT_BATCHES + 1, rounds=1)
    assert figures["records"] == (SEGMENT_BATCHES + 1) * RECORDS
