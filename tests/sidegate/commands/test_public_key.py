"""`sidegate public-key`, in a process of its own."""

from typing import Any

import pytest

from log_format.layout import SegmentHead, encode_segment_head, segment_name
from log_format.note import parse_vkey
from sidegate.development import addresses, documents
from sidegate.development.state import State


@pytest.fixture
def state(command: Any) -> State:
    state = State(command.folder)
    state.make_folders()
    state.make_keys()
    state.make_documents(addresses.free_addresses())
    return state


def test_it_prints_what_a_witness_and_a_checker_need(command: Any, state: State) -> None:
    result = command("public-key", "gatekeeper", "--config", "gatekeeper.yaml")
    assert result.returncode == 0, result.stderr
    assert parse_vkey(result.stdout.strip()).name == documents.GATEKEEPER_ID


def test_a_cores_key_has_the_logs_name(command: Any, state: State) -> None:
    head = encode_segment_head(SegmentHead(b"\xab" * 16, 0, 0, 1))
    (state.data / "core" / segment_name(0)).write_bytes(head)
    result = command("public-key", "core", "--config", "core.yaml")
    assert result.returncode == 0, result.stderr
    state.write_public_keys()
    assert result.stdout == (state.root / "core.pub").read_text()


def test_what_is_missing_is_named(command: Any, state: State) -> None:
    (state.root / "keys/gatekeeper-signing.pem").unlink()
    for service, said in (("gatekeeper", "gatekeeper-signing.pem"), ("core", "core")):
        result = command("public-key", service, "--config", f"{service}.yaml")
        assert result.returncode == 2
        assert said in result.stderr
    result = command("public-key", "core", "--config", "nowhere.yaml")
    assert result.returncode == 2
    assert "nowhere.yaml" in result.stderr


def test_a_key_that_a_signer_has_is_named_by_hand(command: Any, state: State) -> None:
    head = encode_segment_head(SegmentHead(b"\xab" * 16, 0, 0, 1))
    (state.data / "core" / segment_name(0)).write_bytes(head)
    file = state.config("core")
    kept = [line for line in file.read_text().splitlines() if "signing_key" not in line]
    file.write_text("\n".join(kept) + "\n")
    result = command("public-key", "core", "--config", "core.yaml")
    assert (result.returncode, "--signing-key" in result.stderr) == (2, True)
    named = ("--signing-key", "keys/core-signing.pem")
    result = command("public-key", "core", "--config", "core.yaml", *named)
    assert result.returncode == 0, result.stderr
    assert parse_vkey(result.stdout.strip()).name == "sidegate/" + "ab" * 16
