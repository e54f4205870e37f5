"""Checkpoints from all hands against the log's leaves."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from spark.report.collected import Collected
from spark.report.inputs import Inputs
from spark.report.tree_step import PREVIOUS, check_tree


@pytest.fixture
def inputs(log: Any, tmp_path: Path) -> Inputs:
    """An honest log, its own checkpoint, and an earlier one on the gatekeeper's disk."""
    for number in range(6):
        log.add("orders", [b"%d" % number] * 10)
    log.save_tree()
    elsewhere = tmp_path / "witness" / "checkpoint"
    elsewhere.parent.mkdir()
    elsewhere.write_text(str(log.checkpoint(4)))
    return Inputs(log.folder, checkpoints=(elsewhere,), core_keys=(log.core_vkey,))


@pytest.fixture
def look(spark: Any, log: Any, batches: Any) -> Any:
    def run(inputs: Inputs) -> tuple[list[Any], Any]:
        found = Collected(spark)
        _, tree = check_tree(spark, inputs, batches(), 6, log.log_id, found)
        return found.frame().collect(), tree

    return run


def test_an_honest_log_fits_every_checkpoint(look: Any, inputs: Inputs) -> None:
    findings, tree = look(inputs)
    assert findings == []
    assert [each["agrees"] for each in tree["compared"]] == [True, True]
    assert tree["size"] == 6
    assert len(tree["root"]) == 64


def test_a_history_that_was_forged_as_a_whole_is_found_by_the_checkpoint_from_elsewhere(
    look: Any, inputs: Inputs, log: Any
) -> None:
    """All of it fits: leaves, offsets, hashes, tree and signatures, by whoever has every key."""
    for file in log.folder.glob("*.seg"):
        file.unlink()
    log.leaves.clear()
    log._offsets.clear()
    log._sequences.clear()
    log.roll()
    for _ in range(6):
        log.add("orders", [b"forged"] * 10)
    log.save_tree()
    (finding,), tree = look(inputs)
    assert finding.kind == "root_differs"
    assert "from elsewhere" in finding.text
    assert [each["agrees"] for each in tree["compared"]] == [True, False]


def test_the_last_report_counts_as_a_witness_of_the_same_log(
    look: Any, inputs: Inputs, log: Any, tmp_path: Path
) -> None:
    previous = tmp_path / "report.json"
    document = {"log_id": log.log_id.hex(), "tree": {"size": 5, "root": "00" * 32}}
    previous.write_text(json.dumps(document))
    (finding,), _ = look(replace(inputs, previous=previous))
    assert PREVIOUS in finding.text
    previous.write_text(json.dumps({**document, "log_id": "another log's"}))
    assert look(replace(inputs, previous=previous))[0] == []


def test_a_witness_that_has_raised_an_alarm_is_a_finding(
    look: Any, inputs: Inputs, tmp_path: Path
) -> None:
    alarm = tmp_path / "witness" / "alarm"
    alarm.write_text("forked\n")
    (finding,), _ = look(replace(inputs, alarms=(alarm,)))
    assert finding.kind == "witness_alarm"
    assert "forked" in finding.text


def test_a_note_that_is_no_checkpoint_of_this_log_is_a_finding(look: Any, inputs: Inputs) -> None:
    inputs.checkpoints[0].write_text("nonsense")
    (finding,), _ = look(inputs)
    assert finding.kind == "checkpoint_unreadable"
