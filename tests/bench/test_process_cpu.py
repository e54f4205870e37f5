"""Processor time is counted, also of what was started."""

import os
import subprocess
import sys

from bench.process_cpu import cpu_seconds


def test_work_of_a_child_counts() -> None:
    before = cpu_seconds(os.getpid())
    subprocess.run([sys.executable, "-c", "sum(range(3_000_000))"], check=True)
    after = cpu_seconds(os.getpid())
    if before is not None and after is not None:
        assert after > before
