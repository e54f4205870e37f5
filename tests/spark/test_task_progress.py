"""Progress comes while tasks run."""

import time
from typing import Any

from spark.task_progress import TaskProgress


def test_tasks_are_shown_while_they_run_and_not_after(spark: Any) -> None:
    shown: list[tuple[int, int]] = []
    with TaskProgress(spark, lambda done, total: shown.append((done, total))):
        spark.sparkContext.parallelize(range(2), 2).foreach(lambda _: time.sleep(1.3))
    assert shown
    assert all(done <= total == 2 for done, total in shown)
