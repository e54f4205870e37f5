"""Append of 64 KiB batches through the core against a bare loop that writes and syncs each.

python -m bench.core_append [--megabytes 2048] [--rounds 3] [--folder DIR]
"""

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

import uvloop

from bench.core_load import Batches, append_load
from bench.core_process import CoreProcess
from bench.runner import RESULTS, Bar, compare, report, take_turns

BATCH_BYTES = 64 * 1024
IN_FLIGHT = 16
MANY_TOPICS = 100
MB = 1_000_000


class BareLoop:
    """Writes each batch to a file and syncs it before the next: the limit of a naive log."""

    name = "bare write+fdatasync"

    def __init__(self, folder: Path, total_bytes: int) -> None:
        self._folder = folder
        self._total = total_bytes
        self._batch = os.urandom(Batches("bench", BATCH_BYTES).frame_bytes)

    def __enter__(self) -> "BareLoop":
        self._folder.mkdir(parents=True, exist_ok=True)
        return self

    def __exit__(self, *error: object) -> None:
        """Nothing outlives a round."""

    def run(self) -> float:
        """MB a second."""
        with tempfile.NamedTemporaryFile(dir=self._folder) as file:
            fd = file.fileno()
            rounds = self._total // len(self._batch)
            begin = time.perf_counter()
            for _ in range(rounds):
                os.write(fd, self._batch)
                os.fdatasync(fd)
            return rounds * len(self._batch) / (time.perf_counter() - begin) / MB


class CoreAppend:
    """The core as a process, fed with 16 batches in flight."""

    def __init__(
        self, name: str, folder: Path, total_bytes: int, topics: int, *, unix: bool = False
    ) -> None:
        self.name = name
        self._core = CoreProcess(folder, unix=unix)
        self._total = total_bytes
        self._topics = [f"bench.{number}" for number in range(topics)]

    def __enter__(self) -> "CoreAppend":
        self._core.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._core.__exit__(None, None, None)

    def run(self) -> float:
        """MB a second."""
        load = append_load(
            self._core,
            topics=self._topics,
            in_flight=IN_FLIGHT,
            batch_bytes=BATCH_BYTES,
            total_bytes=self._total,
        )
        return uvloop.run(load) / MB


def main() -> int:
    """Measure, print and write the ratios; 1 if one falls short."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=2048)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    total = arguments.megabytes * 1024 * 1024
    folder = arguments.folder
    one = CoreAppend("core, 1 topic", folder, total, topics=1, unix=True)
    many = CoreAppend("core, 100 topics", folder, total, topics=MANY_TOPICS, unix=True)
    tls = CoreAppend("core, 1 topic, mTLS", folder, total, topics=1)
    bare = BareLoop(folder, total)
    figures = take_turns(
        [one, bare, many, tls], arguments.rounds, lambda line: print(line, file=sys.stderr)
    )
    ratios = [
        compare(figures, Bar(one.name, bare.name, 0.8)),
        compare(figures, Bar(many.name, one.name, 0.8)),
        compare(figures, Bar(tls.name, bare.name, 0.8)),
    ]
    return 0 if report("core append 64 KiB", "MB/s", figures, ratios) else 1


if __name__ == "__main__":
    sys.exit(main())
