"""Findings from frames and from elsewhere come out as one."""

from typing import Any

from pyspark.sql import functions as f

from spark.checks.findings import as_findings
from spark.damage import Damage
from spark.report.collected import Collected


def test_frames_notes_and_damage_are_one_frame(spark: Any) -> None:
    found = Collected(spark)
    found.add(as_findings(spark.range(1), "a", kind=f.lit("k"), text=f.lit("t")))
    found.note("b", "note", "in words")
    found.note_damage([Damage("0.seg", 64, 8, "bad_magic", "junk")], "c")
    rows = {(row.check, row.kind, row.file, row.position) for row in found.frame().collect()}
    assert rows == {
        ("a", "k", None, None),
        ("b", "note", None, None),
        ("c", "bad_magic", "0.seg", 64),
    }
