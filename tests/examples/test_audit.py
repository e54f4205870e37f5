"""The audit's notebook: every cell is sound, and all of them run over a log."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
NOTEBOOK = ROOT / "examples" / "audit" / "questions.ipynb"


def cells() -> list[str]:
    document: dict[str, Any] = json.loads(NOTEBOOK.read_bytes())
    assert document["nbformat"] == 4
    return ["".join(each["source"]) for each in document["cells"] if each["cell_type"] == "code"]


def test_every_cell_compiles_and_carries_no_output() -> None:
    for number, cell in enumerate(cells()):
        compile(cell, f"cell {number}", "exec")
    document = json.loads(NOTEBOOK.read_bytes())
    assert not any(each.get("outputs") for each in document["cells"])


@pytest.mark.long
@pytest.mark.timeout(600)
def test_the_notebook_runs_over_a_mesh(start_mesh: Any, tmp_path: Path) -> None:
    mesh = start_mesh()
    mesh.wait_for("ready")
    assert mesh.publish("orders", {"order_id": 101})[0] == 200
    mesh.close()
    (tmp_path / "notebook.py").write_text("\n".join(cells()))
    answer = subprocess.run(
        [sys.executable, "notebook.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr[-2000:]
    assert "orders" in answer.stdout
