"""`kill -9` of a real writer at random: every acknowledged message is there, once, in order.

This keeps the system's cache, so it proves nothing about syncs (`test_faults` does that); it does
prove that whatever the process was in the middle of, the next one goes on.
"""

import signal
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any

import pytest

from core_log.log.log import Log
from log_format.tree import root_of

LANES = 4
IN_FLIGHT = 8
OPTIONS = (
    "LogOptions(segment_bytes=200_000, checkpoint_bytes=60_000, checkpoint_idle_s=0.01,"
    " disk_reserve_bytes=0, require_provenance=False)"
)

WRITER = f"""
import os, sys, threading
from pathlib import Path
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from core_log.tree.checkpointer import Checkpointer
from core_log.clock import SystemClock
from core_log.log.files import OsFiles
from core_log.log.log import Log
from core_log.log.options import LogOptions, Retention
from core_log.tree.signing import LocalSigner
from log_format.checkpoint_note import log_origin
from log_format.body import encode_body
from log_format.frame import decode_frame, encode_frame
from log_format.parts import Producer

log = Log.open(Path(sys.argv[1]), {OPTIONS})
assert not log.recovery.quarantined and not log.recovery.lost, log.recovery
assert log.tree.refusal is None, log.tree.refusal
gate = threading.Semaphore({IN_FLIGHT})

def send(lane, sequence, repeated):
    values = [b"%d:%d" % (lane, sequence + n) + b"." * (sequence * 37 % 900) for n in range(2)]
    producer = Producer("t%d" % (lane % 2), 0, lane, 0, sequence, 2, 1, 1, bytes(32))
    frame = decode_frame(encode_frame(producer, encode_body([1, 1], values)))

    def done(outcomes):
        (outcome,) = outcomes
        assert outcome.duplicate == repeated, outcome
        os.write(1, b"%d %d %d\\n" % (lane, sequence, outcome.base_offset))
        gate.release()

    gate.acquire()
    log.submit([frame], done)

known = [log.producer("", lane, "t%d" % (lane % 2), 0) for lane in range({LANES})]
following = [0 if state is None else state.next_sequence for state in known]
for lane, sequence in enumerate(following):
    if sequence:
        send(lane, sequence - 2, repeated=True)

def clean():
    while True:
        log.clean({{"t1": Retention(bytes=150_000)}}, 1)

key = Ed25519PrivateKey.from_private_bytes(bytes(32))
signer = LocalSigner(key, log_origin(log.log_id))
checkpoints = Checkpointer(log, log.tree, OsFiles(), Path(sys.argv[1]), signer, SystemClock())
checkpoints.open()

def sign():
    while True:
        if checkpoints.turn():
            os.write(1, b"signed %d %s\\n" % (
                checkpoints.newest.size, checkpoints.newest.head.root.hex().encode()
            ))

threading.Thread(target=clean, daemon=True).start()
threading.Thread(target=sign, daemon=True).start()
while True:
    for lane in range({LANES}):
        send(lane, following[lane], repeated=False)
        following[lane] += 2
"""


def run_and_kill(
    folder: Path, random: Random, signed: dict[int, str]
) -> dict[tuple[int, int], int]:
    """Let a writer run for a while, then kill it; what it was told, by lane and sequence.

    What it has signed is added to `signed`: root by size.
    """
    acknowledged = {}

    def note(line: bytes) -> None:
        if line.startswith(b"signed"):
            _, size, root = line.decode().split()
            assert signed.setdefault(int(size), root) == root
        else:
            lane, sequence, offset = map(int, line.split())
            acknowledged[lane, sequence] = offset

    with subprocess.Popen(
        [sys.executable, "-P", "-c", WRITER, str(folder)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as writer:
        for _ in range(random.randrange(1, 600)):
            line = writer.stdout.readline()
            if not line:
                break
            note(line)
        writer.send_signal(signal.SIGKILL)
        rest, errors = writer.communicate()
        assert writer.returncode == -signal.SIGKILL, errors.decode()
        for line in rest.splitlines(keepends=True):
            if line.endswith(b"\n"):
                note(line)
    return acknowledged


def kill_again_and_again(kit: Any, folder: Path, seed: int, kills: int) -> None:
    random = Random(seed)
    acknowledged: dict[tuple[int, int], int] = {}
    signed: dict[int, str] = {}
    rounds = 0
    # A busy machine may leave a writer no time to sign before it is killed.
    while rounds < kills or (len(signed) < kills // 2 and rounds < 10 * kills):
        rounds += 1
        for key, offset in run_and_kill(folder, random, signed).items():
            assert acknowledged.setdefault(key, offset) == offset, "a repeat got another offset"
    log = Log.open(folder, kit.options(require_provenance=False, segment_bytes=200_000))
    following = dict.fromkeys(range(LANES), -1)
    for topic in ("t0", "t1"):
        found = kit.read_all(log, topic)
        for offset in sorted(found):
            lane, sequence = map(int, found[offset].rstrip(b".").split(b":"))
            assert following[lane] in (-1, sequence), "out of order, twice, or missing"
            following[lane] = sequence + 1
        start = log.start_offset(topic, 0)
        for (lane, sequence), offset in acknowledged.items():
            if topic == f"t{lane % 2}" and offset >= start:
                assert found[offset].startswith(b"%d:%d" % (lane, sequence)), "lost"
        assert (topic == "t0") == (start == 0)
    tree = log.tree
    assert tree is not None
    assert tree.refusal is None
    assert tree.root(tree.size) == root_of(
        each for each in tree.leaves.hashes(0, tree.size) if each is not None
    )
    assert {size: tree.root(size).hex() for size in signed} == signed, "what was signed has changed"
    log.close()
    assert len(acknowledged) > kills
    assert len(signed) >= kills // 2


def test_a_killed_writer_loses_nothing(kit: Any, tmp_path: Path, seed: int) -> None:
    kill_again_and_again(kit, tmp_path, seed, kills=10)


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_a_writer_killed_a_hundred_times_loses_nothing(kit: Any, tmp_path: Path, seed: int) -> None:
    kill_again_and_again(kit, tmp_path, seed, kills=120)
