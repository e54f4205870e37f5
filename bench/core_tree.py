"""What the Merkle tree and signed checkpoints cost an append: the log with them against without.

python -m bench.core_tree [--megabytes 512] [--rounds 5] [--folder DIR]

The core's own path in one process: frames are decoded and checked as the core does, appended and
synced in groups; with the tree, a thread signs a checkpoint about once a second as the core does.
By processor time, which other processes on the machine can't disturb, and by wall time.
"""

import argparse
import hashlib
import shutil
import sys
import tempfile
import threading
import time
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from bench.core_load import Batches
from bench.runner import RESULTS, Bar, compare, report, take_turns
from core_log.api import intake
from core_log.clock import SystemClock
from core_log.log.files import OsFiles
from core_log.log.log import Log
from core_log.log.options import LogOptions
from core_log.tree.checkpointer import Checkpointer
from core_log.tree.checkpointing import SIGN_INTERVAL_S
from core_log.tree.signing import LocalSigner
from core_log.tree.tile_tree import TileTree
from log_format.checkpoint_note import log_origin

BATCH_BYTES = 64 * 1024
IN_FLIGHT = 16
LEAF_US_MAX = 3.0
"""Amortised cost of a leaf in the tree, besides its own hash."""
LEAVES = 1_000_000


class Append:
    """Appends of one size to a fresh log each round. The figure is batches a second."""

    def __init__(self, folder: Path, total_bytes: int, *, tree: bool) -> None:
        self.name = "tree and checkpoints" if tree else "neither"
        self._folder = folder
        self._total = total_bytes
        self._tree = tree
        self.by_processor: list[float] = []

    def __enter__(self) -> "Append":
        self._folder.mkdir(parents=True, exist_ok=True)
        return self

    def __exit__(self, *error: object) -> None:
        """Nothing outlives a round."""

    def run(self) -> float:
        """Batches a second by wall time; those by processor time are kept aside."""
        folder = Path(tempfile.mkdtemp(dir=self._folder))
        log = Log.open(folder, LogOptions(tree=self._tree, disk_reserve_bytes=0))
        stop = threading.Event()
        signing = threading.Thread(target=self._sign, args=(log, folder, stop))
        if self._tree:
            signing.start()
        batches = Batches("bench", BATCH_BYTES)
        count = self._total // batches.frame_bytes
        room = threading.Semaphore(IN_FLIGHT)
        begin, begin_cpu = time.perf_counter(), time.process_time()
        for _ in range(count):
            (frame,) = intake.split(batches.next())
            if intake.check(frame) is not None:
                raise RuntimeError("the benchmark's own frame was refused")
            room.acquire()
            log.submit([frame], lambda _: room.release())
        for _ in range(IN_FLIGHT):
            room.acquire()
        taken, taken_cpu = time.perf_counter() - begin, time.process_time() - begin_cpu
        stop.set()
        if self._tree:
            signing.join()
        log.close()
        shutil.rmtree(folder)
        self.by_processor.append(count / taken_cpu)
        return count / taken

    @staticmethod
    def _sign(log: Log, folder: Path, stop: threading.Event) -> None:
        if log.tree is None:
            raise RuntimeError("this log keeps a tree")
        signer = LocalSigner(Ed25519PrivateKey.generate(), log_origin(log.log_id))
        checkpointer = Checkpointer(log, log.tree, OsFiles(), folder, signer, SystemClock())
        checkpointer.open()
        while not stop.wait(SIGN_INTERVAL_S):
            checkpointer.turn()


def leaf_us() -> float:
    """Microseconds of processor time that a leaf costs in the tree, in groups as they come."""
    hashes = [hashlib.sha256(number.to_bytes(8)).digest() for number in range(4096)]
    tree = TileTree()
    begin = time.process_time()
    for _ in range(LEAVES // len(hashes)):
        for at in range(0, len(hashes), IN_FLIGHT):
            tree.extend(hashes[at : at + IN_FLIGHT])
        tree.saved([tile for tile, _ in tree.unsaved()])
    return (time.process_time() - begin) / LEAVES * 1_000_000


def main() -> int:
    """Measure, print and write the ratios; 1 if one falls short."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    total = arguments.megabytes * 1024 * 1024
    subject = Append(arguments.folder, total, tree=True)
    peer = Append(arguments.folder, total, tree=False)
    figures = take_turns(
        [subject, peer], arguments.rounds, lambda line: print(line, file=sys.stderr)
    )
    bar = Bar(subject.name, peer.name, 0.9)
    by_processor = {each.name: each.by_processor for each in (subject, peer)}
    reached = report(
        "core tree by processor time",
        "batches of 64 KiB a second of processor time",
        by_processor,
        [compare(by_processor, bar)],
    )
    reached &= report(
        "core tree by wall time", "batches of 64 KiB a second", figures, [compare(figures, bar)]
    )
    cost = leaf_us()
    verdict = "reached" if cost < LEAF_US_MAX else "SHORT"
    print(f"\na leaf in the tree: {cost:.2f} µs, bar {LEAF_US_MAX:.2f} µs: {verdict}")
    return 0 if reached and cost < LEAF_US_MAX else 1


if __name__ == "__main__":
    sys.exit(main())
