"""A log's limits are checked where they are made."""

from typing import Any

import pytest

from core_log.log.options import REACHED, LogOptions, Retention


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("segment_bytes", 4095),
        ("segment_bytes", 2**31 + 1),
        ("group_bytes_max", 0),
        ("in_flight_bytes_max", 0),
        ("checkpoint_bytes", 0),
        ("open_segments_max", 0),
        ("producers_max", 0),
        ("hot_tail_bytes", -1),
        ("disk_reserve_bytes", -1),
    ],
)
def test_an_impossible_limit_is_refused_by_name(name: Any, value: Any) -> None:
    with pytest.raises(ValueError, match=name):
        LogOptions(**{name: value})


def test_only_a_synced_append_is_called_committed() -> None:
    assert REACHED == {"fsync": "committed", "interval": "interval", "os": "os"}


def test_retention_keeps_everything_unless_told_otherwise() -> None:
    assert Retention() == Retention(age_us=None, bytes=None, drop_below={})
