"""Progress comes while tasks run."""

import time
from pathlib import Path
from typing import Any

from spark.task_progress import TaskProgress

SHOWN_S_MAX = 60.0


def test_tasks_are_shown_while_they_run_and_not_after(spark: Any, tmp_path: Path) -> None:
    shown: list[tuple[int, int]] = []
    seen = tmp_path / "seen"

    def show(done: int, total: int) -> None:
        shown.append((done, total))
        seen.touch()

    def run_until_seen(_: int) -> None:
        end = time.monotonic() + SHOWN_S_MAX
        while not seen.exists() and time.monotonic() < end:
            time.sleep(0.02)

    with TaskProgress(spark, show):
        spark.sparkContext.parallelize(range(2), 2).foreach(run_until_seen)
    assert shown
    assert all(done <= total == 2 for done, total in shown)
