"""The witness at work, before a core that grows, and before cores that lie."""

import logging
from pathlib import Path
from typing import Any

import pytest

from gatekeeper.config import WitnessConfig
from gatekeeper.witness.ed25519 import verify
from gatekeeper.witness.witness import ALARM_EVERY_S, Unproven, Witness
from gatekeeper.witness.witness_memory import WitnessMemory
from gatekeeper.witness.witness_verdict import Verdict
from log_format.checkpoint_note import verified_signatures
from log_format.note import parse_note


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
async def watched(new_mesh: Any, tree: Any, wait_until: Any) -> Any:
    """A mesh whose gatekeeper has cosigned a tree of five leaves."""
    tree.grow(5)
    mesh = await new_mesh(tree=tree)
    await wait_until(lambda: len(tree.cosigned) == 1)
    return mesh


def another(mesh: Any, tree: Any, **changed: Any) -> Witness:
    """A witness with the same memory and keys, as after a restart; it asks when it is told to."""
    sealer = mesh.gatekeeper.sealer
    given = {
        "core_keys": [tree.key],
        "own_key": sealer.witness_key,
        "sign": sealer.cosign,
        "config": WitnessConfig(interval=60.0),
        **changed,
    }
    memory = given.pop("memory", None) or WitnessMemory(mesh.gatekeeper.config.data)
    return Witness(mesh.gatekeeper.core, memory, **given)


async def begun(witness: Witness) -> Witness:
    """Started and stopped: the memory is read, and nobody asks but the test."""
    await witness.start()
    await witness.stop()
    return witness


async def test_it_cosigns_what_extends_the_last_and_remembers_it_first(
    watched: Any, tree: Any, wait_until: Any
) -> None:
    witness = watched.gatekeeper.watch.witness
    tree.grow(4)
    await wait_until(lambda: len(tree.cosigned) == 2)
    note = parse_note(tree.cosigned[-1])
    (found,) = verified_signatures(note, [watched.gatekeeper.sealer.witness_key], verify)
    assert found.time_s is not None
    kept = WitnessMemory(watched.gatekeeper.config.data).load()
    assert kept.head == tree.head == witness.head
    assert witness.alarm is None
    assert watched.service.readiness().ready


async def test_the_memory_is_on_disk_before_the_signature_exists(watched: Any, tree: Any) -> None:
    sealer = watched.gatekeeper.sealer
    seen: list[Any] = []

    def sign(message: bytes) -> bytes:
        seen.append(WitnessMemory(watched.gatekeeper.config.data).load().head)
        return bytes(sealer.cosign(message))

    await watched.gatekeeper.watch.stop()
    witness = await begun(another(watched, tree, sign=sign))
    tree.grow(2)
    assert await witness.look() is Verdict.EXTENDS
    assert seen == [tree.head]


async def test_a_checkpoint_that_has_our_cosignature_is_not_cosigned_again(
    watched: Any, tree: Any
) -> None:
    await watched.gatekeeper.watch.stop()
    witness = await begun(another(watched, tree))
    assert await witness.look() is Verdict.SAME
    assert len(tree.cosigned) == 1
    tree.cosigned.clear()
    assert await witness.look() is Verdict.SAME
    assert len(tree.cosigned) == 1


async def test_a_core_that_renews_its_key_is_followed_where_both_keys_are_known(
    watched: Any, tree: Any
) -> None:
    await watched.gatekeeper.watch.stop()
    old = tree.key
    tree.private = type(tree)().private
    # The core shows what it signed last until there is more to sign.
    witness = await begun(another(watched, tree, core_keys=[old, tree.key]))
    assert witness.alarm is None
    tree.grow(1)
    assert await witness.look() is Verdict.EXTENDS
    # What is remembered is under the new key now, and the old one can go.
    witness = await begun(another(watched, tree))
    assert await witness.look() is Verdict.SAME
    assert witness.alarm is None


def shrink(tree: Any) -> None:
    tree.leaves.pop()


def split(tree: Any) -> None:
    tree.leaves[2] = bytes(32)


def fork(tree: Any) -> None:
    tree.leaves[2] = bytes(32)
    tree.grow(3)


def wrong_key(tree: Any) -> None:
    tree.private = type(tree)().private
    tree.grow(1)


def wrong_origin(tree: Any) -> None:
    tree.origin = "sidegate/" + "cd" * 16
    tree.grow(1)


LIES = [shrink, split, fork, wrong_key, wrong_origin]
VERDICTS = [
    Verdict.SHRUNK,
    Verdict.SPLIT,
    Verdict.FORKED,
    Verdict.WRONG_KEY,
    Verdict.WRONG_ORIGIN,
]


@pytest.mark.parametrize(("lie", "verdict"), list(zip(LIES, VERDICTS, strict=True)))
async def test_no_lie_is_cosigned_and_each_is_an_alarm_that_nobody_can_miss(
    watched: Any,
    tree: Any,
    wait_until: Any,
    frame: Any,
    caplog: pytest.LogCaptureFixture,
    lie: Any,
    verdict: Verdict,
) -> None:
    before = tree.note()
    lie(tree)
    with caplog.at_level(logging.ERROR, "sidegate.gatekeeper.witness"):
        witness = watched.gatekeeper.watch.witness
        await wait_until(lambda: witness.alarm is verdict and caplog.records)
    assert "WITNESS ALARM" in caplog.text
    assert len(tree.cosigned) == 1
    readiness = watched.service.readiness()
    assert not readiness.ready
    assert readiness.detail["checks"]["witness"]["alarm"] == verdict.code
    await wait_until(lambda: witness.evidence)
    notes = [
        (WitnessMemory(watched.gatekeeper.config.data).evidence / name).read_text()
        for name in witness.evidence
    ]
    assert [parse_note(each).text for each in notes] == [
        parse_note(each).text for each in (before, tree.note())
    ]
    status, problem = await watched.caller().append(frame())
    assert (status, problem["code"]) == (503, "log_forked")
    assert not watched.core.stored["orders.eu", 0]


async def test_with_on_fork_alarm_messages_still_go_in_and_readiness_still_tells(
    new_mesh: Any, tree: Any, wait_until: Any, frame: Any
) -> None:
    tree.grow(5)
    mesh = await new_mesh(tree=tree, witness={"on_fork": "alarm"})
    await wait_until(lambda: tree.cosigned)
    fork(tree)
    await wait_until(lambda: mesh.gatekeeper.watch.witness.alarm is Verdict.FORKED)
    status, answer = await mesh.caller().append(frame())
    assert (status, answer["results"][0]["base_offset"]) == (200, 0)
    assert not mesh.service.readiness().ready


@pytest.mark.parametrize("lie", [split, fork])
async def test_two_signed_histories_stay_an_alarm_whatever_comes_next_and_over_a_restart(
    watched: Any, tree: Any, wait_until: Any, lie: Any
) -> None:
    honest = list(tree.leaves)
    lie(tree)
    witness = watched.gatekeeper.watch.witness
    await wait_until(lambda: witness.evidence)
    verdict = witness.alarm
    tree.leaves = honest
    tree.grow(2)
    assert await witness.look() is Verdict.EXTENDS
    assert witness.alarm is verdict
    assert len(tree.cosigned) == 1
    await watched.gatekeeper.watch.stop()
    again = await begun(another(watched, tree))
    assert again.alarm is verdict
    again_shown = tree.note()
    WitnessMemory(watched.gatekeeper.config.data).begin_anew(again_shown, tree.origin)
    trusted = await begun(another(watched, tree))
    assert trusted.alarm is None
    assert await trusted.look() is Verdict.SAME


async def test_a_smaller_tree_that_grows_back_the_same_ends_the_alarm(
    watched: Any, tree: Any, wait_until: Any
) -> None:
    honest = list(tree.leaves)
    tree.leaves.pop()
    witness = watched.gatekeeper.watch.witness
    await wait_until(lambda: witness.alarm is Verdict.SHRUNK)
    tree.leaves = honest
    tree.grow(1)
    await wait_until(lambda: witness.alarm is None)
    await wait_until(watched.service.readiness)
    assert watched.service.readiness().ready


async def test_a_core_that_gives_no_proof_gets_no_cosignature_and_no_false_alarm(
    watched: Any, tree: Any
) -> None:
    await watched.gatekeeper.watch.stop()
    clock = Clock()
    witness = await begun(another(watched, tree, clock=clock))
    tree.grow(1)
    tree.hold_proofs = True
    with pytest.raises(Unproven, match="503"):
        await witness.look()
    assert witness.alarm is None
    assert witness.readiness().ready
    clock.now += 61
    assert witness.silent
    assert witness.status()["state"] == "silent"
    tree.hold_proofs = False
    assert await witness.look() is Verdict.EXTENDS
    assert not witness.silent


async def test_an_alarm_is_logged_again_and_again(
    watched: Any, tree: Any, caplog: pytest.LogCaptureFixture
) -> None:
    await watched.gatekeeper.watch.stop()
    clock = Clock()
    witness = await begun(another(watched, tree, clock=clock))
    shrink(tree)
    await witness.look()
    with caplog.at_level(logging.ERROR, "sidegate.gatekeeper.witness"):
        for _ in range(3):
            witness._log_alarm()
            witness._log_alarm()
            clock.now += ALARM_EVERY_S
    assert len(caplog.records) == 3


@pytest.mark.parametrize("lose", ["checkpoint", "rotten", "everything"])
async def test_a_lost_memory_is_loud_and_nothing_is_cosigned_without_it(
    watched: Any, tree: Any, caplog: pytest.LogCaptureFixture, lose: str, tmp_path: Path
) -> None:
    await watched.gatekeeper.watch.stop()
    memory = WitnessMemory(watched.gatekeeper.config.data)
    checkpoint = memory.folder / "checkpoint"
    if lose == "checkpoint":
        checkpoint.unlink()
    elif lose == "rotten":
        checkpoint.write_text(checkpoint.read_text().replace("\n5\n", "\n4\n"))
    else:
        # The core still has what only this gatekeeper can have signed.
        memory = WitnessMemory(tmp_path / "a new disk")
    tree.grow(0)
    with caplog.at_level(logging.ERROR, "sidegate.gatekeeper.witness"):
        witness = await begun(another(watched, tree, memory=memory))
        assert await witness.look() is Verdict.MEMORY_LOST
        witness._log_alarm()
    assert "lost what it remembered" in caplog.text
    assert witness.alarm is Verdict.MEMORY_LOST
    assert witness.status()["problem"]
    assert len(tree.cosigned) == 1
    # It is this gatekeeper's own accident: the log may be as honest as before.
    assert witness.readiness().ready
    witness.require_sound()


async def test_a_core_that_is_away_is_not_silent(watched: Any, tree: Any) -> None:
    await watched.gatekeeper.watch.stop()
    clock = Clock()
    witness = await begun(another(watched, tree, clock=clock))
    clock.now += 61
    watched.gatekeeper.core.last_error = "connection refused"
    witness._could_not("the core can't be reached")
    assert not witness.silent
