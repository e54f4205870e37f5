"""`sidegate log prove` and `check-proof` as people run them."""

import json
from pathlib import Path
from typing import Any

import pytest

from log_format.note import SignatureType, VerifierKey


@pytest.fixture
def log(signed_log: Any) -> Any:
    """A state folder with a log, its public keys, and cosigned checkpoints."""
    signed_log.write(cosigned=(4, 8, 12))
    (signed_log.root / "core.pub").write_text(f"{signed_log.core_key}\n")
    (signed_log.root / "gatekeeper.pub").write_text(f"{signed_log.witness_key}\n")
    return signed_log


KEYS = ("--key", "core.pub", "--witness", "gatekeeper.pub")


def test_a_message_is_proven_to_whoever_has_the_keys_and_nothing_else(
    command: Any, log: Any
) -> None:
    made = command("log", "prove", "orders", "0", "7", "--log", ".")
    assert (made.returncode, made.stderr) == (0, "")
    document = json.loads(made.stdout)
    assert (document["topic"], document["offset"], document["principal"]) == (
        "orders",
        7,
        "billing",
    )
    (command.folder / "proof.json").write_text(made.stdout)
    checked = command("log", "check-proof", "proof.json", *KEYS)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert "orders/0 offset 7 was sent by billing" in checked.stdout
    assert "needle-6" in checked.stdout
    assert "cosigned by gk-1" in checked.stdout
    told = json.loads(command("log", "check-proof", "proof.json", *KEYS, "--json").stdout)
    assert told["record"]["value"] == "needle-6"
    piped = command("log", "check-proof", "-", *KEYS, stdin=made.stdout)
    assert piped.returncode == 0


def test_a_changed_proof_is_not_proven(command: Any, log: Any) -> None:
    text = command("log", "prove", "orders", "0", "7", "--log", ".").stdout
    for old, new in (('"offset": 7', '"offset": 8'), ("billing", "shipping"), ("{", "")):
        (command.folder / "proof.json").write_text(text.replace(old, new, 1))
        checked = command("log", "check-proof", "proof.json", *KEYS)
        assert checked.returncode == 1, old
        assert "not proven" in checked.stdout
    result = command("log", "check-proof", "proof.json", *KEYS, "--json")
    assert json.loads(result.stdout)["proven"] is False


def test_a_check_that_can_not_run_says_why(command: Any, log: Any) -> None:
    proof = command.folder / "proof.json"
    proof.write_text(command("log", "prove", "orders", "0", "7", "--log", ".").stdout)
    for arguments, said in (
        (("proof.json", "--key", "core.pub"), "--no-witness"),
        (("proof.json", "--key", "nowhere.pub", "--no-witness"), "nowhere.pub"),
        (("nowhere.json", *KEYS), "nowhere.json"),
        (("proof.json", "--key", "gatekeeper.pub", "--no-witness"), "a witness's key"),
    ):
        result = command("log", "check-proof", *arguments)
        assert result.returncode == 2, arguments
        assert said in result.stderr
    result = command("log", "check-proof", "proof.json", "--key", "core.pub", "--no-witness")
    assert result.returncode == 1
    assert "not given" in result.stdout
    ignoring = ("--no-witness", "--ignore-unknown")
    result = command("log", "check-proof", "proof.json", "--key", "core.pub", *ignoring)
    assert result.returncode == 0
    assert "the core's word alone" in result.stdout


def test_without_a_cosignature_the_proof_says_so(command: Any, log: Any) -> None:
    log.write(cosigned=(4,))
    made = command("log", "prove", "orders", "0", "11", "--log", ".", "--wait", "0", "--no-body")
    assert made.returncode == 0
    assert "core's word alone" in made.stderr
    assert json.loads(made.stdout)["body"] is None
    (command.folder / "proof.json").write_text(made.stdout)
    assert command("log", "check-proof", "proof.json", *KEYS).returncode == 1


def test_what_can_not_be_proven_is_said(command: Any, log: Any) -> None:
    for arguments, code, said in (
        (("orders", "0", "99", "--log", "."), 1, "last one is 11"),
        (("orders", "0", "1", "--log", "nowhere"), 2, "nowhere"),
    ):
        result = command("log", "prove", *arguments)
        assert (result.returncode, said in result.stderr) == (code, True)
    newest = log.folder / "tree" / "checkpoint"
    newest.unlink()
    result = command("log", "prove", "orders", "0", "11", "--log", ".", "--wait", "0")
    assert (result.returncode, "no checkpoint covers" in result.stderr) == (1, True)
    log.write(tree=False)
    result = command("log", "prove", "orders", "0", "11", "--log", ".")
    assert (result.returncode, "none has a tree" in result.stderr) == (2, True)


def test_verify_uses_the_keys_and_the_memory_of_the_state_folder(command: Any, log: Any) -> None:
    result = command("log", "verify", ".", "--json")
    (told,) = json.loads(result.stdout)["logs"]
    assert (result.returncode, told["senders_proven"]) == (0, 12)
    assert told["tree"] == {"leaves": 12, "checkpoints": 3, "cosigned": 12, "unproven": []}
    remembered = Path(command.folder) / "data" / "gatekeeper" / "witness"
    remembered.mkdir(parents=True)
    (remembered / "checkpoint").write_text(str(log.note(12)))
    log.batches = log.batches[:5]
    log.frames = log.make_frames()
    log.write()
    result = command("log", "verify", ".")
    assert result.returncode == 1
    assert "checkpoint of 12 leaves" in result.stdout


def test_what_the_core_signed_before_its_key_was_renewed_is_proven_by_the_old_key(
    command: Any, log: Any
) -> None:
    before = command("log", "prove", "orders", "0", "7", "--log", ".").stdout
    (command.folder / "before.json").write_text(before)
    (command.folder / "core.pub").rename(command.folder / "old.pub")
    renewed = type(log)(command.folder / "other")
    log.core, log.core_key = renewed.core, renewed.core_key
    (command.folder / "core.pub").write_text(f"{log.core_key}\n")
    (log.folder / "tree" / "checkpoint").write_text(str(log.note(12, cosigned=True)))

    with_one = command("log", "verify", ".")
    assert with_one.returncode == 1
    assert "checkpoint of 4 leaves: no given key of the core has signed it" in with_one.stdout
    both = ("--key", "old.pub", "--key", "core.pub")
    with_both = command("log", "verify", ".", *both)
    assert with_both.returncode == 0, with_both.stdout
    assert "3 checkpoints, cosigned up to 12" in with_both.stdout

    after = command("log", "prove", "orders", "0", "7", "--log", ".", "--no-body").stdout
    (command.folder / "after.json").write_text(after)
    (command.folder / "all.pub").write_text(
        "".join((command.folder / name).read_text() for name in ("core.pub", "old.pub"))
    )
    for file in ("before.json", "after.json"):
        for keys in (both, ("--key", "all.pub")):
            checked = command("log", "check-proof", file, *keys, "--witness", "gatekeeper.pub")
            assert checked.returncode == 0, checked.stdout
    assert command("log", "check-proof", "before.json", *KEYS).returncode == 1


def test_a_log_that_was_put_in_the_place_of_the_one_whose_key_is_known(
    command: Any, log: Any
) -> None:
    """Everything fits: another log, with a key of its own."""
    name = "sidegate/" + "ab" * 16
    known = VerifierKey(name, SignatureType.ED25519, log.core_key.public)
    (command.folder / "known.pub").write_text(f"{known}\n")
    result = command("log", "verify", ".", "--key", "known.pub")
    assert result.returncode == 1
    assert f"log_missing: {name}" in result.stdout
    assert "no key of this log's core was given" in result.stdout


def test_verify_takes_keys_and_checkpoints_from_elsewhere(command: Any, log: Any) -> None:
    elsewhere = command.folder / "elsewhere"
    elsewhere.mkdir()
    for name in ("core.pub", "gatekeeper.pub"):
        (command.folder / name).rename(elsewhere / name)
    (elsewhere / "seen").write_text(str(log.note(9)))
    keys = ("--key", "elsewhere/core.pub", "--witness", "elsewhere/gatekeeper.pub")
    result = command("log", "verify", "data/core", *keys, "--checkpoint", "elsewhere/seen")
    assert result.returncode == 0, result.stdout
    assert "tree of 12 leaves, 4 checkpoints, cosigned up to 12" in result.stdout
    result = command("log", "verify", "data/core", "--checkpoint", "elsewhere/core.pub")
    assert (result.returncode, "is no checkpoint" in result.stderr) == (2, True)
    other = log.note(9).text.replace("sidegate/", "sidegate/00")
    (elsewhere / "seen").write_text(str(log.note(9)).replace(log.note(9).text, other))
    result = command("log", "verify", "data/core", "--checkpoint", "elsewhere/seen")
    assert (result.returncode, "no such log is here" in result.stdout) == (1, True)


def test_a_message_of_a_running_mesh_is_proven_and_receipted(
    mesh: Any, topic: str, command: Any
) -> None:
    state = mesh.state
    assert mesh.publish(topic, {"order_id": 101})[0] == 200
    keys = ("--key", str(state / "core.pub"), "--witness", str(state / "gatekeeper.pub"))
    made = command("log", "prove", topic, "0", "0", "--log", str(state), "--wait", "20")
    assert (made.returncode, made.stderr) == (0, "")
    checked = command("log", "check-proof", "-", *keys, stdin=made.stdout)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert '{"order_id": 101}' in checked.stdout
    assert "cosigned by spiffe://sidegate-dev/gatekeeper" in checked.stdout
    receipt = command("publish", topic, "2", "--receipt", "--url", mesh.url)
    assert receipt.returncode == 0, receipt.stderr
    checked = command("log", "check-proof", "-", *keys, stdin=receipt.stdout)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert f"{topic}/0 offset 1 was sent by dev-app" in checked.stdout
    verified = command("log", "verify", str(state), "--json")
    assert verified.returncode == 0, verified.stdout
