"""`sidegate witness`: an operator looks at a gatekeeper's memory, and decides."""

import json
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from gatekeeper.witness.witness_memory import WitnessMemory
from log_format.checkpoint_note import TreeHead, sign_tree_head
from log_format.note import SignatureType, VerifierKey
from sidegate.development import addresses
from sidegate.development.state import State

CORE = Ed25519PrivateKey.generate()
ORIGIN = "sidegate/" + "ab" * 16


def note(size: int, key: Ed25519PrivateKey = CORE, origin: str = ORIGIN) -> str:
    public = VerifierKey(origin, SignatureType.ED25519, key.public_key().public_bytes_raw())
    return str(sign_tree_head(TreeHead(origin, size, bytes(32)), public, key.sign))


@pytest.fixture
def memory(command: Any) -> WitnessMemory:
    state = State(command.folder)
    state.make_folders()
    state.make_keys()
    state.make_documents(addresses.free_addresses())
    public = VerifierKey(ORIGIN, SignatureType.ED25519, CORE.public_key().public_bytes_raw())
    (state.root / "core.pub").write_text(f"{public}\n")
    memory = WitnessMemory(state.data / "gatekeeper")
    memory.prepare()
    return memory


def test_what_is_remembered_is_shown(command: Any, memory: WitnessMemory) -> None:
    result = command("witness", "show", "--config", "gatekeeper.yaml")
    assert (result.returncode, "no checkpoint" in result.stdout) == (0, True)
    memory.keep(note(7), ORIGIN)
    result = command("witness", "show", "--config", "gatekeeper.yaml")
    assert result.returncode == 0
    assert f"{ORIGIN}: 7 leaves" in result.stdout


def test_an_alarm_is_shown_with_its_evidence(command: Any, memory: WitnessMemory) -> None:
    memory.keep(note(7), ORIGIN)
    memory.keep_alarm("forked")
    evidence = memory.keep_evidence("forked", note(7), note(8))
    result = command("witness", "show", "--config", "gatekeeper.yaml", "--json")
    told = json.loads(result.stdout)
    assert result.returncode == 1
    assert (told["size"], told["alarm"]) == (7, "forked")
    assert [Path(each).name for each in told["evidence"]] == [each.name for each in evidence]
    result = command("witness", "show", "--config", "gatekeeper.yaml")
    assert "alarm: forked" in result.stdout


def test_an_operator_names_the_checkpoint_to_go_on_from(
    command: Any, memory: WitnessMemory
) -> None:
    memory.keep(note(7), ORIGIN)
    memory.keep_alarm("forked")
    evidence = memory.keep_evidence("forked", note(7), note(8))
    (command.folder / "chosen.note").write_text(note(8))
    result = command("witness", "trust", "chosen.note", "--config", "gatekeeper.yaml")
    assert result.returncode == 0, result.stderr
    assert "from 8 leaves on" in result.stdout
    found = memory.load()
    assert (found.note, found.alarm) == (note(8), None)
    assert all(each.exists() for each in evidence)


@pytest.mark.parametrize(
    "text",
    [
        note(8, Ed25519PrivateKey.generate()),
        note(8, CORE, "sidegate/other"),
        note(8).replace("\n8\n", "\n9\n"),
        "no note\n",
    ],
)
def test_what_the_core_has_not_signed_is_not_trusted(
    command: Any, memory: WitnessMemory, text: str
) -> None:
    memory.keep(note(7), ORIGIN)
    (command.folder / "chosen.note").write_text(text)
    result = command("witness", "trust", "chosen.note", "--config", "gatekeeper.yaml")
    assert result.returncode == 1
    assert memory.load().note == note(7)
