"""A 10 GB log of 64 KiB batches: memory, opening after a clean stop and after a kill, lookups.

python -m bench.core_large_log [--gigabytes 10] [--lookups 20000] [--folder DIR]
"""

import argparse
import json
import os
import random
import signal
import statistics
import sys
import time
from pathlib import Path

import uvloop

from bench.core_load import append_load
from bench.core_process import CoreProcess
from bench.process_memory import unshared_bytes
from bench.runner import RESULTS
from core_log.log.log import Log
from core_log.log.options import LogOptions

BATCH_BYTES = 64 * 1024
TOPICS = [f"bench.{number}" for number in range(8)]
LOOKUP_MS_MAX = 1.0
OPEN_S_MAX = 1.0
UNSHARED_MB_MAX = 150.0


def main() -> int:
    """Measure, print and write the figures; 1 if one is above its limit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gigabytes", type=float, default=10)
    parser.add_argument("--lookups", type=int, default=20_000)
    parser.add_argument("--folder", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    figures: dict[str, float] = {}
    with CoreProcess(arguments.folder) as core:
        load = append_load(
            core,
            topics=TOPICS,
            in_flight=16,
            batch_bytes=BATCH_BYTES,
            total_bytes=int(arguments.gigabytes * 1e9),
        )
        figures["append MB/s"] = uvloop.run(load) / 1e6
        figures["unshared MB after appending"] = unshared_bytes(core.pid) / 1e6
        core.stop()
        figures |= measure_open(core, "after a clean stop")
        figures |= measure_lookups(core, arguments.lookups)
        figures["ready again s (whole process)"] = core.start()
        figures["unshared MB after opening"] = unshared_bytes(core.pid) / 1e6
        os.kill(core.pid, signal.SIGKILL)
        core.stop()
        figures |= measure_open(core, "after a kill")
    limits = {
        "lookup p99 ms": LOOKUP_MS_MAX,
        "open s after a clean stop": OPEN_S_MAX,
        "unshared MB after appending": UNSHARED_MB_MAX,
        "unshared MB after opening": UNSHARED_MB_MAX,
    }
    short = False
    for name, figure in figures.items():
        limit = limits.get(name)
        verdict = "" if limit is None else f"  limit {limit}: {_verdict(figure, limit)}"
        short = short or (limit is not None and figure > limit)
        print(f"{name}: {figure:,.3f}{verdict}")
    RESULTS.mkdir(parents=True, exist_ok=True)
    document = {"gigabytes": arguments.gigabytes, "figures": figures, "limits": limits}
    (RESULTS / "core-large-log.json").write_text(json.dumps(document, indent=2) + "\n")
    return 1 if short else 0


def _verdict(figure: float, limit: float) -> str:
    return "reached" if figure <= limit else "SHORT"


def log_folder(core: CoreProcess) -> Path:
    """The main log of a core: the greatest folder of segments."""
    folders = {path.parent for path in core.folder.rglob("*.seg")}
    return max(folders, key=lambda folder: sum(f.stat().st_size for f in folder.glob("*.seg")))


def measure_open(core: CoreProcess, when: str) -> dict[str, float]:
    """How long the log itself takes to open, and how much of it was read."""
    begin = time.perf_counter()
    log = Log.open(log_folder(core), LogOptions())
    figures = {
        f"open s {when}": time.perf_counter() - begin,
        f"scanned MB {when}": log.recovery.scanned_bytes / 1e6,
    }
    log.close()
    return figures


def measure_lookups(core: CoreProcess, count: int) -> dict[str, float]:
    """Random offsets of random topics, each with its batch read from the file."""
    log = Log.open(log_folder(core), LogOptions())
    ends = {topic: log.end_offset(topic, 0) for topic in TOPICS}
    taken = []
    seed = random.randrange(2**32)
    print(f"seed {seed}", file=sys.stderr)
    chance = random.Random(seed)
    for _ in range(count):
        topic = chance.choice(TOPICS)
        offset = chance.randrange(ends[topic])
        begin = time.perf_counter()
        found = log.read(topic, 0, offset, 1)
        taken.append(time.perf_counter() - begin)
        if not found.frames or found.next_offset <= offset:
            raise RuntimeError(f"offset {offset} of {topic} was not found")
    log.close()
    cuts = statistics.quantiles(taken, n=100)
    return {"lookup p50 ms": cuts[49] * 1e3, "lookup p99 ms": cuts[98] * 1e3}


if __name__ == "__main__":
    sys.exit(main())
