"""Spark over the log against Spark over Parquet with the same rows, and what verifying costs.

python -m bench.spark_scan [--records 1000000] [--large 10000000] [--rounds 5] [--report]

--large also measures that the cost is linear up to so many records; 100000000 works too, and needs
30 GB of disk. --report makes a whole report on the large log with a driver of 2 GB.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.audit_log import gatekeeper_key, write_log
from bench.process_cpu import cpu_seconds, cpu_spent, own_cpu_seconds
from bench.runner import RESULTS
from spark.report.gather import gather
from spark.report.inputs import Inputs
from spark.session import make_session

FULL_AT_LEAST = 0.65
NARROW_AT_LEAST = 0.7
VERIFIED_PER_S_AT_LEAST = 2_000_000
LINEAR_AT_MOST = 1.25
REPORT_S_MAX = 120.0
WARM_ROUNDS = 3
"""Java still compiles in the first rounds, which are not counted: the bars are for a warm one."""
NARROW = "topic,principal,size,append_time"


def main() -> int:
    """Measure, print and write the figures; 1 if one misses its bar."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--large", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--report", action="store_true")
    parser.add_argument("--folder", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    logs = {
        records: arguments.folder / f"orders-log-{records}"
        for records in (arguments.records, arguments.large)
        if records
    }
    for records, folder in logs.items():
        write_log(folder, records)
    small = logs[arguments.records]
    figures: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as scratch:
        session = make_session(memory="2g", scratch=Path(scratch))
        try:
            figures |= scans(session, small, arguments)
            if arguments.large:
                figures |= linear(session, logs, arguments)
            if arguments.report:
                folder = logs[arguments.large or arguments.records]
                figures |= report(session, folder, Path(scratch))
        finally:
            session.stop()
    return verdict(figures, arguments.folder)


def scans(session: Any, log: Path, arguments: argparse.Namespace) -> dict[str, float]:
    """The log and Parquet take turns; each round gives one ratio."""
    parquet = str(log) + ".parquet"
    if not Path(parquet, "_SUCCESS").exists():
        source = session.read.format("sidegate").load(str(log))
        source.write.option("compression", "zstd").mode("overwrite").parquet(parquet)
    names = NARROW.split(",")

    def log_frame(**options: str) -> Any:
        return session.read.format("sidegate").options(**options).load(str(log))

    frames = {
        "log, all columns": log_frame(),
        "log, all columns, verify=off": log_frame(verify="off"),
        "parquet, all columns": session.read.parquet(parquet),
        "log, four columns": log_frame(columns=NARROW),
        "log, four columns, verify=off": log_frame(columns=NARROW, verify="off"),
        "parquet, four columns": session.read.parquet(parquet).select(*names),
        "verify": log_frame(rows="batches", columns="leaf,damage"),
    }
    seconds, in_java = take_turns(session, frames, arguments.rounds)
    records = arguments.records
    medians = {f"{name} s": statistics.median(each) for name, each in seconds.items()}
    medians |= {f"{name}, Java's s": statistics.median(each) for name, each in in_java.items()}

    def ratio(ours: str, theirs: str) -> float:
        pairs = zip(seconds[theirs], seconds[ours], strict=True)
        return statistics.median(peer / own for peer, own in pairs)

    return medians | {
        "full scan / parquet": ratio("log, all columns", "parquet, all columns"),
        "full scan, verify=off / parquet": ratio(
            "log, all columns, verify=off", "parquet, all columns"
        ),
        "four columns / parquet": ratio("log, four columns", "parquet, four columns"),
        "four columns, verify=off / parquet": ratio(
            "log, four columns, verify=off", "parquet, four columns"
        ),
        # Processor seconds are already those of all cores together.
        "verified records/s/core": records / medians["verify s"],
    }


def take_turns(
    session: Any, frames: dict[str, Any], rounds: int, *, warm_rounds: int = WARM_ROUNDS
) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """Every frame once a round: seconds of all processes, and those of them that are Java's.

    Processor seconds where they can be had: on a shared machine wall time measures the others too.
    """
    java = session.sparkContext._gateway.proc.pid
    seconds: dict[str, list[float]] = {name: [] for name in frames}
    in_java: dict[str, list[float]] = {name: [] for name in frames}
    for number in range(warm_rounds + rounds):
        for name, frame in frames.items():
            before, own_before = cpu_seconds(java), own_cpu_seconds(java)
            wall = consume(frame)
            after, own_after = cpu_seconds(java), own_cpu_seconds(java)
            took = wall if before is None or after is None else cpu_spent(before, after)
            own = 0.0 if own_before is None or own_after is None else own_after - own_before
            if number >= warm_rounds:
                seconds[name].append(took)
                in_java[name].append(own)
            print(
                f"round {number}: {name}: {took:.2f} s of processor, {own:.2f} of them Java's,"
                f" {wall:.2f} s",
                flush=True,
            )
    return seconds, in_java


def consume(frame: Any) -> float:
    """Seconds to produce every row of a frame and throw it away."""
    began = time.perf_counter()
    frame.write.format("noop").mode("overwrite").save()
    return time.perf_counter() - began


def linear(session: Any, logs: dict[int, Path], arguments: argparse.Namespace) -> dict[str, float]:
    """Seconds per record of the large log against the small one, verified, all columns."""
    names = {records: f"{records} records" for records in logs}
    frames = {
        names[records]: session.read.format("sidegate").load(str(folder))
        for records, folder in logs.items()
    }
    seconds, _ = take_turns(session, frames, min(arguments.rounds, 3), warm_rounds=1)
    each = {
        records: statistics.median(seconds[name]) / records * 1e6 for records, name in names.items()
    }
    small, large = each[arguments.records], each[arguments.large]
    return {
        "s per million records, small": small,
        "s per million records, large": large,
        "cost per record, large / small": large / small,
    }


def report(session: Any, log: Path, scratch: Path) -> dict[str, float]:
    """Seconds for a whole report."""
    began = time.perf_counter()
    inputs = Inputs(log, gatekeeper_keys=(gatekeeper_key(),))
    result, _ = gather(session, inputs, scratch, lambda step: print(step, flush=True))
    assert not result.findings, result.tables["findings"].rows[:5]
    return {"report s": time.perf_counter() - began}


def verdict(figures: dict[str, float], folder: Path) -> int:
    """Print each figure, hold it against its bar, and keep them."""
    least = {
        "full scan / parquet": FULL_AT_LEAST,
        "four columns / parquet": NARROW_AT_LEAST,
        "verified records/s/core": VERIFIED_PER_S_AT_LEAST,
    }
    most = {"cost per record, large / small": LINEAR_AT_MOST, "report s": REPORT_S_MAX}
    short = False
    for name, figure in figures.items():
        bar = ""
        if name in least:
            reached = figure >= least[name]
            bar = f", bar at least {least[name]:,}: {'reached' if reached else 'SHORT'}"
            short |= not reached
        if name in most:
            reached = figure <= most[name]
            bar = f", bar at most {most[name]:,}: {'reached' if reached else 'SHORT'}"
            short |= not reached
        print(f"{name}: {figure:,.2f}{bar}")
    folder.mkdir(exist_ok=True)
    (folder / "spark_scan.json").write_text(json.dumps(figures, indent=1) + "\n")
    return 1 if short else 0


if __name__ == "__main__":
    sys.exit(main())
