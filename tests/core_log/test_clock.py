"""The machine's clocks, as the log reads them."""

import time

from core_log.clock import SystemClock


def test_the_wall_clock_is_in_microseconds_since_1970() -> None:
    before = time.time_ns() // 1000
    now = SystemClock().now_us()
    assert before <= now <= time.time_ns() // 1000


def test_the_running_clock_never_goes_back() -> None:
    clock = SystemClock()
    seen = [clock.monotonic() for _ in range(100)]
    assert seen == sorted(seen)
