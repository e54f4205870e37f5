"""A loss of power or a kill at every single step of saving tiles and signing: nothing is forgotten.

Whatever the disk was doing, the tree is that of the log afterwards, what was signed stays true, and
signing goes on.
"""

import copy
import errno
import os
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from random import Random
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from core_log.log.log_errors import LogError
from core_log.tree.checkpointer import Checkpointer
from core_log.tree.signing import LocalSigner
from log_format.checkpoint_note import log_origin
from log_format.tree import root_of

KEY = Ed25519PrivateKey.from_private_bytes(bytes(32))
BEFORE = 252
"""Leaves before the faults: the first tile fills up while they happen."""


def prepared(kit: Any) -> Any:
    """A disk with a closed log that was signed."""
    disk, clock = kit.disk(), kit.clock()
    log = kit.open(disk, clock, checkpoint_bytes=1_000_000)
    send(kit, log, 0, BEFORE)
    checkpointer(disk, kit, log, clock).turn()
    log.close()
    assert not disk.pending
    return disk


def send(kit: Any, log: Any, first: int, count: int) -> None:
    kit.append(log, *(kit.frame([b"%d" % n], sequence=n) for n in range(first, first + count)))
    for _ in range(count):
        log.turn()


def checkpointer(disk: Any, kit: Any, log: Any, clock: Any) -> Checkpointer:
    signer = LocalSigner(KEY, log_origin(log.log_id))
    made = Checkpointer(log, log.tree, disk, kit.folder, signer, clock)
    made.open()
    return made


def counted(disk: Any, steps: int) -> list[int]:
    """Have every write, sync and rename from the given one on fail; how many were made."""
    made = [0]
    trip = disk.trip

    def stop(operation: str) -> None:
        if operation != "read":
            made[0] += 1
            if made[0] > steps:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
        trip(operation)

    disk.trip = stop
    return made


def work(kit: Any, disk: Any, signed: dict[int, bytes]) -> None:
    """Append and sign, again and again, until the disk fails or all is done."""
    clock = kit.clock()
    log = kit.open(disk, clock, checkpoint_bytes=1_000_000)
    checkpoints = checkpointer(disk, kit, log, clock)
    at = BEFORE
    for count in (3, 7, 2):
        send(kit, log, at, count)
        at += count
        checkpoints.turn()
        signed[checkpoints.newest.size] = checkpoints.newest.head.root


def check(kit: Any, disk: Any, signed: dict[int, bytes]) -> None:
    clock = kit.clock()
    log = kit.open(disk, clock)
    tree = log.tree
    assert tree.refusal is None
    assert tree.size == log.status().leaves >= max(signed)
    assert tree.root(tree.size) == root_of(tree.leaves.hashes(0, tree.size))
    assert {size: tree.root(size) for size in signed} == signed
    checkpoints = checkpointer(disk, kit, log, clock)
    assert checkpoints.newest.size >= max(signed)
    checkpoints.turn()
    assert checkpoints.newest.size == tree.size
    log.close()


def first_signed(kit: Any, disk: Any) -> dict[int, bytes]:
    log = kit.open(copy.deepcopy(disk))
    return {BEFORE: log.tree.root(BEFORE)}


@pytest.mark.parametrize("how", ["power", "kill"])
def test_nothing_is_forgotten_wherever_the_disk_stops(kit: Any, seed: int, how: str) -> None:
    original = prepared(kit)
    known = first_signed(kit, original)
    steps, done = 0, False
    while not done:
        disk = copy.deepcopy(original)
        disk.random = Random(seed + steps)
        made = counted(disk, steps)
        signed = dict(known)
        with suppress(OSError, LogError):
            work(kit, disk, signed)
        done = made[0] <= steps
        del disk.trip
        check(kit, disk.crash() if how == "power" else disk.kill(), signed)
        steps += 1
    assert steps > 30
    assert max(signed) == BEFORE + 12


def damaged(content: bytes) -> Iterator[bytes]:
    """The content with each byte changed, cut at each byte, and doubled."""
    for at in range(len(content)):
        yield content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]
        yield content[:at]
    yield content + content


def test_damage_at_every_byte_of_the_trees_files_is_mended_or_refused(kit: Any) -> None:
    disk, clock = kit.disk(), kit.clock()
    log = kit.open(disk, clock)
    send(kit, log, 0, 4)
    checkpointer(disk, kit, log, clock).turn()
    root = log.tree.root(4)
    log.close()
    names = [path for path in disk.names_now if "tree" in path.parts]
    assert {path.name for path in names} == {"state", "4", "checkpoint"}
    outcomes = Counter()
    for path in names:
        for content in damaged(bytes(disk.names_now[path].cache)):
            sick = copy.deepcopy(disk)
            file = sick.open(path, "create")
            if content:
                file.write(0, [content])
            file.sync()
            log = kit.open(sick)
            outcomes[path.name, log.tree.refusal is None, bool(log.recovery.notes)] += 1
            if log.tree.refusal is None:
                assert log.tree.root(4) == root
            else:
                assert path.name == "checkpoint"
    # A checkpoint that says something else than the log is refused; rubbish is named; and where a
    # signature alone was changed the tree is none the wiser, which `Checkpointer.open` is.
    assert outcomes["checkpoint", False, True] > 0
    assert outcomes["checkpoint", True, True] > 0
    assert not outcomes["state", True, False]
