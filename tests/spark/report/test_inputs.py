"""What is found in a state folder, and what the auditor names instead."""

from pathlib import Path
from typing import Any

import pytest

from spark.log_folder import NoLog
from spark.report.inputs import WITNESS, find_inputs


@pytest.fixture
def state(tmp_path: Path, log: Any) -> Path:
    root = tmp_path / "state"
    log.folder = root / "data" / "core"
    log.folder.mkdir(parents=True)
    log.roll()
    (root / WITNESS).mkdir(parents=True)
    (root / WITNESS / "checkpoint").touch()
    (root / WITNESS / "alarm").touch()
    (root / "core.pub").write_text(f"{log.core_vkey}\n")
    (root / "gatekeeper.pub").write_text(f"{log.gatekeeper_vkey}\n")
    (root / "policy.yaml").write_text("topics: {a: {publish: [b]}}\n")
    return root


def test_a_state_folder_has_everything(state: Path, log: Any) -> None:
    inputs = find_inputs(state)
    assert inputs.log == log.folder
    assert inputs.core_keys == (log.core_vkey,)
    assert [key.name for key in inputs.gatekeeper_keys] == ["gk-1"]
    assert inputs.policy is not None
    assert [path.name for path in (*inputs.checkpoints, *inputs.alarms)] == ["checkpoint", "alarm"]


def test_a_logs_own_folder_has_nothing_but_the_log(state: Path, log: Any) -> None:
    inputs = find_inputs(log.folder)
    assert (inputs.core_keys, inputs.policy, inputs.checkpoints) == ((), None, ())


def test_what_is_named_comes_before_what_is_found(state: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.yaml"
    other.write_text("topics: {}\n")
    assert find_inputs(state, policy=other).policy_name == "other.yaml"


def test_no_log_says_so(tmp_path: Path) -> None:
    with pytest.raises(NoLog):
        find_inputs(tmp_path)
