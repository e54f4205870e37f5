"""A report says what it did not check."""

from typing import Any

from spark.checks.unchecked import Scope, unchecked


def told(spark: Any, scope: Scope) -> str:
    return "\n".join(f"{row.what}: {row.why}" for row in unchecked(spark, scope).collect())


def test_a_report_with_nothing_to_go_by_says_so(spark: Any) -> None:
    text = told(spark, Scope())
    for part in ("rewritten as a whole", "unused grants", "earlier report", "who signed"):
        assert part in text


def test_what_was_given_is_not_missed_and_what_remains_is_named(spark: Any) -> None:
    text = told(
        spark,
        Scope(
            since="2026-01-01", checkpoints_from_elsewhere=1, core_key=True, earlier_report=True,
            gatekeepers_without_key=("gk-9",), unsynced_batches=2, removed_bodies=3,
            encrypted_bodies=4, policy=True, grants_too_young=5, cursors=True,
            summarised_denials=6, control_log=True,
        ),
    )  # fmt: skip
    for part in ("gk-9", "last 2 batches", "bodies of 3", "4 encrypted", "5 unused", "6 denials"):
        assert part in text
    for part in ("rewritten as a whole", "who signed", "lag of"):
        assert part not in text
    assert "storage `memory`" in text


def test_files_that_are_none_of_a_log_are_named(spark: Any) -> None:
    text = told(spark, Scope(other_files=[f"{number}.txt" for number in range(23)]))
    assert "the file 0.txt in the log's folder: no log has a file of this name" in text
    assert "3 further files" in text
    assert "22.txt" not in text
