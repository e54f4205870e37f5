"""Processor time is counted, also of what was started."""

import os
import subprocess
import sys

from bench.process_cpu import cpu_seconds, cpu_spent


def test_work_of_a_child_counts() -> None:
    before = cpu_seconds(os.getpid())
    subprocess.run([sys.executable, "-c", "sum(range(3_000_000))"], check=True)
    after = cpu_seconds(os.getpid())
    if before is not None and after is not None:
        assert cpu_spent(before, after) > 0


def test_a_process_that_is_gone_takes_nothing_away() -> None:
    assert cpu_spent({1: 2.0, 2: 5.0}, {1: 2.5, 3: 0.25}) == 0.75
