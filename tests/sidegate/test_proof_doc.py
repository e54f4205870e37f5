"""The page about proofs says what the code does, and its lines prove a message by hand."""

import json
import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from log_format.proof import Proof
from sidegate.checker.proving import best_claim, find_batch, prove
from sidegate.checker.tree_files import TreeFiles

PAGE = (Path(__file__).parents[2] / "docs" / "proof.md").read_text(encoding="utf-8")


def printed(language: str, holding: str) -> str:
    blocks: list[str] = re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    (block,) = [block for block in blocks if holding in block]
    return block


@pytest.fixture
def folder(signed_log: Any, tmp_path: Path) -> Path:
    """A proof and two public keys, and nothing else."""
    signed_log.write(cosigned=(4, 8, 12))
    located = find_batch(signed_log.folder, "orders", 0, 7)
    files = TreeFiles(signed_log.folder, signed_log.folder)
    claim, _cosigned = best_claim(files.claims, located.leaf, [signed_log.witness_key])
    assert claim is not None
    proof = prove(signed_log.folder, located, 7, claim, body=True)
    folder = tmp_path / "by hand"
    folder.mkdir()
    (folder / "proof.json").write_text(json.dumps(proof.as_json()))
    (folder / "core.pub").write_text(f"{signed_log.core_key}\n")
    (folder / "gatekeeper.pub").write_text(f"{signed_log.witness_key}\n")
    return folder


def by_hand(folder: Path) -> tuple[bool, list[str]]:
    """Whether the lines of Python are content, and what openssl says."""
    script = printed("python", "sha256")
    walked = subprocess.run(
        [sys.executable, "-I", "-c", script], cwd=folder, capture_output=True, check=False
    )
    if walked.returncode != 0:
        return False, []
    checked = subprocess.run(
        ["sh", "-c", printed("sh", "openssl")],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    return True, checked.stdout.splitlines()


def test_the_printed_lines_prove_a_message(folder: Path) -> None:
    assert by_hand(folder) == (True, ["Signature Verified Successfully"] * 3)


def test_the_printed_lines_refuse_what_was_changed(folder: Path) -> None:
    proof = json.loads((folder / "proof.json").read_text())
    at = proof["envelope"].index(b"billing".hex())
    forged = proof["envelope"][:at] + b"chilling"[1:].hex() + proof["envelope"][at + 14 :]
    (folder / "proof.json").write_text(json.dumps(proof | {"envelope": forged}))
    assert by_hand(folder) == (False, [])
    text = proof["checkpoint"].replace("\n12\n", "\n13\n")
    (folder / "proof.json").write_text(json.dumps(proof | {"checkpoint": text}))
    walked, said = by_hand(folder)
    assert walked
    assert said.count("Signature Verified Successfully") == 1


def test_the_way_to_the_root_takes_ten_lines() -> None:
    lines = [line for line in printed("python", "sha256").splitlines() if line]
    ends = [number for number, line in enumerate(lines, 1) if line.startswith("assert")]
    assert ends[0] == 10


def test_every_member_of_a_proof_is_explained() -> None:
    table = PAGE[PAGE.index("| member | is |") : PAGE.index("## Check it by hand")]
    told = re.findall(
        r"`(\w+)`", " ".join(row.split("|")[1] for row in table.splitlines()[2:] if row)
    )
    assert sorted(told) == sorted(field.name for field in fields(Proof))


def test_every_kind_of_finding_that_is_named_exists() -> None:
    table = PAGE[PAGE.index("| finding | means |") :]
    told = {
        kind
        for row in table.splitlines()[2:]
        if row.startswith("|")
        for kind in re.findall(r"`(\w+)`", row.split("|")[1])
    }
    root = Path(__file__).parents[2]
    code = "".join(path.read_text() for path in (root / "sidegate" / "checker").glob("*.py"))
    code += (root / "log_format" / "errors.py").read_text()
    assert {kind for kind in told if f'"{kind}"' not in code} == set()
