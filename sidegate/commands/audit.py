"""`sidegate audit`: what an auditor asks of a log, answered with Spark.

Exit codes: 0 the log is sound, 1 there are findings of completeness or integrity, 2 the audit could
not run. Imports Spark only when a command runs: it is an extra that most installations lack.
"""

from __future__ import annotations

import logging
import os
import re
import sys
import tempfile
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sidegate.commands.options import CouldNotRun, ask, sidecar, state_option, url_option

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from spark.report.result import Result

FINDINGS_SHOWN_MAX = 20
"""More than a screen of findings hides the first one; the report has them all."""
REPORT_FOLDER = "audit"
INSTALL = "run `make audit` once, or `pip install 'sidegate[audit]'`"


@click.group("audit")
def audit() -> None:
    """Audit the log with Spark, and write a report.

    Is it complete and unchanged, who did what, and was it allowed?
    """


class Memory(click.ParamType):  # type: ignore[type-arg,unused-ignore]
    """An amount such as 2g or 900m, as Java takes it."""

    name = "amount"
    mb_min = 512
    """Spark does not start with less than about 450 MB."""

    def convert(self, value: Any, param: Any, ctx: Any) -> str:  # noqa: ARG002
        found = re.fullmatch(r"(\d{1,6})([mMgG])", str(value))
        if found is None:
            self.fail(f"{value!r} is no amount such as 2g or 900m")
        if int(found[1]) * (1 if found[2] in "mM" else 1024) < self.mb_min:
            self.fail(f"{value} is too little for Spark: give it at least {self.mb_min}m")
        return str(value)


class Since(click.ParamType):  # type: ignore[type-arg,unused-ignore]
    """A time such as 2026-01-31T12:00:00Z, or a span such as 90d or 24h before now."""

    name = "time"
    units = {"d": "days", "h": "hours", "m": "minutes"}  # noqa: RUF012

    def convert(self, value: Any, param: Any, ctx: Any) -> str:  # noqa: ARG002
        text = str(value)
        if text[-1:] in self.units and text[:-1].isdigit():
            span = timedelta(**{self.units[text[-1]]: int(text[:-1])})
            return (datetime.now(UTC) - span).isoformat(timespec="seconds")
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            self.fail(f"{text!r} is neither a time such as 2026-01-31 nor a span such as 30d")
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).isoformat()


_file = click.Path(path_type=Path, dir_okay=False, exists=True)


@audit.command()
@state_option
@click.option("--log", "log_path", type=click.Path(path_type=Path), help="A log's own folder.")
@click.option("--since", type=Since(), help="Only what was appended since: a time, or 30d, 24h.")
@click.option("--out", type=click.Path(path_type=Path), help="Folder to write to.  [STATE/audit]")
@click.option("--checkpoint", multiple=True, type=_file, help="A checkpoint from elsewhere.")
@click.option(
    "--core-key", multiple=True, type=_file, help="The core's public key.  [STATE/core.pub]"
)
@click.option("--gatekeeper-key", multiple=True, type=_file, help="A gatekeeper's public key.")
@click.option("--policy", type=_file, help="The policy to look for unused grants in.")
@click.option("--window", type=click.IntRange(1), default=30, show_default=True, help="Days.")
@click.option("--ocsf", is_flag=True, help="Also write OCSF API Activity events to OUT/ocsf.")
@click.option("--cores", type=click.IntRange(1), help="Cores to use.  [default: all]")
@click.option("--memory", type=Memory(), default="2g", show_default=True, help="Of Spark's driver.")
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
def report(
    folder: Path, log_path: Path | None, out: Path | None, *, as_json: bool, **chosen: Any
) -> None:
    """Check the log and write a report: one HTML page, and the same as JSON and Parquet.

    Exits 0 if the log is sound, 1 with findings, 2 if the audit could not run. A denial is no
    finding. The mesh may be running or stopped; nothing is written to its log.
    """
    from sidegate.audit_terminal import Steps

    target = out or (folder if log_path is None else Path()) / REPORT_FOLDER
    steps = Steps()
    _check_place(target)
    with _could_not_run(), tempfile.TemporaryDirectory(prefix="sidegate-audit-") as scratch:
        result = _make(log_path or folder, target, Path(scratch), steps, chosen)
    steps.end()
    if as_json:
        click.echo((target / "report.json").read_text())
    else:
        _print(result, target)
    sys.exit(result.exit_code)


@audit.command()
@state_option
@click.option("--log", "log_path", type=click.Path(path_type=Path), help="A log's own folder.")
@click.option("--out", type=click.Path(path_type=Path), help="Folder.  [STATE/audit/archive]")
@click.option("--topic", default="archive", show_default=True, help="Where hashes go.")
@click.option("--no-publish", is_flag=True, help="Publish no hashes; print them only.")
@url_option
def archive(
    folder: Path,
    log_path: Path | None,
    out: Path | None,
    topic: str,
    url: str | None,
    *,
    no_publish: bool,
) -> None:
    """Write sealed segments to Parquet, and publish each file's hash to the log.

    What is archived already stays. Exits 1 where a segment is damaged: it and what follows it are
    not archived. Needs no Java.
    """
    target = out or (folder if log_path is None else Path()) / REPORT_FOLDER / "archive"
    with _could_not_run():
        from spark.archiving import archive_log
        from spark.damage import DamagedLog
        from spark.log_folder import log_folder

        log = log_folder(str(log_path or folder))
        written = 0
        try:
            for entry in archive_log(log, target):
                if not no_publish:
                    with sidecar(url) as connection:
                        message = {"topic": topic, "id": entry["sha256"], "message": entry}
                        ask(connection, "POST", "/publish", message, as_json=False)
                click.echo(f"{entry['file']} {entry['messages']} messages {entry['sha256']}")
                written += 1
        except DamagedLog as error:
            raise click.ClickException(str(error)) from error
        click.echo(f"{written} segments archived in {target}", err=True)


@audit.command()
@state_option
@click.option("--log", "log_path", type=click.Path(path_type=Path), help="A log's own folder.")
@click.option("--out", type=click.Path(path_type=Path), help="Folder.  [STATE/audit/watch]")
@click.option("--gatekeeper-key", multiple=True, type=_file, help="A gatekeeper's public key.")
@click.option("--topic", default="findings", show_default=True, help="Where findings go.")
@click.option("--once", is_flag=True, help="Go to the log's present end, and end.")
@click.option("--interval", type=float, default=10.0, show_default=True, help="Seconds.")
@click.option("--batch", type=click.IntRange(1), default=50_000, help="Batches at a time.")
@click.option("--cores", type=click.IntRange(1), help="Cores to use.  [default: all]")
@click.option("--memory", type=Memory(), default="2g", show_default=True, help="Of Spark's driver.")
@url_option
def watch(
    folder: Path, log_path: Path | None, out: Path | None, url: str | None, **chosen: Any
) -> None:
    """Follow the log and publish findings as they are made.

    Every batch is kept in Parquet exactly once. A watch that was stopped goes on where it was.
    Exits 0 when it is stopped, or with --once at the log's end; 2 if it could not run.
    """
    target = out or (folder if log_path is None else Path()) / REPORT_FOLDER / "watch"
    with (
        _could_not_run(endless=True),
        tempfile.TemporaryDirectory(prefix="sidegate-audit-") as scratch,
    ):
        from spark.report.inputs import find_inputs
        from spark.watching import Watch

        inputs = find_inputs(log_path or folder, gatekeeper_keys=chosen["gatekeeper_key"])
        keys = {key.name: key.public for key in inputs.gatekeeper_keys}
        with _session(chosen, Path(scratch), 0) as session, sidecar(url) as connection:

            def tell(ident: str, finding: dict[str, Any]) -> None:
                message = {"topic": chosen["topic"], "id": ident, "message": finding}
                ask(connection, "POST", "/publish", message, as_json=False)
                click.echo(finding_line(finding))

            click.echo(f"Watching {inputs.log}; findings go to {chosen['topic']}", err=True)
            Watch(session, inputs.log, target, keys, tell).run(
                once=chosen["once"],
                interval_s=chosen["interval"],
                leaves_per_trigger=chosen["batch"],
            )


def _make(path: Path, target: Path, scratch: Path, steps: Any, chosen: dict[str, Any]) -> Result:
    from sidegate.policy_tests import failing_tests
    from spark.log_folder import segments_of
    from spark.report.gather import gather
    from spark.report.inputs import find_inputs
    from spark.report.writing import DOCUMENT, write_report
    from spark.task_progress import TaskProgress

    inputs = find_inputs(
        path,
        since=chosen["since"],
        checkpoints=chosen["checkpoint"],
        core_keys=chosen["core_key"],
        gatekeeper_keys=chosen["gatekeeper_key"],
        policy=chosen["policy"],
        previous=target / DOCUMENT,
        window_days=chosen["window"],
    )
    steps.begin("Starting Spark")
    size = sum(segment.size for segment in segments_of(inputs.log))
    with _session(chosen, scratch, size) as session, TaskProgress(session, steps.tasks):
        result, rows = gather(session, inputs, scratch, steps.begin, failing=failing_tests)
        steps.begin("Writing the report")
        write_report(result, target)
        if chosen["ocsf"]:
            from importlib.metadata import version

            from spark.report.ocsf import ocsf_events

            events = ocsf_events(rows.batches, rows.decisions, version("sidegate"))
            events.coalesce(1).write.mode("overwrite").json(str(target / "ocsf"))
        return result


@contextmanager
def _session(chosen: dict[str, Any], scratch: Path, log_bytes: int) -> Iterator[SparkSession]:
    from spark.session import QUICK_BYTES_MAX, make_session

    session = make_session(
        cores=str(chosen["cores"] or "*"),
        memory=chosen["memory"],
        scratch=scratch,
        quick=log_bytes <= QUICK_BYTES_MAX,
    )
    try:
        yield session
    finally:
        session.stop()


def _check_place(target: Path) -> None:
    """Before the work, so that nobody waits for a report that has no place."""
    place = next(each for each in (target, *target.absolute().parents) if each.exists())
    if not place.is_dir() or not os.access(place, os.W_OK):
        raise CouldNotRun(
            f"the report can't be written to {target}: {place} is no folder that can be written; "
            "name another with --out"
        )


@contextmanager
def _could_not_run(*, endless: bool = False) -> Iterator[None]:
    """Whatever keeps the audit from running ends it with exit code 2 and a sentence.

    Ctrl-C too, for exit code 1 would mean findings; only what is `endless` is ended by it.
    """
    try:
        import pyspark.errors
        from py4j.protocol import Py4JError
    except ImportError as error:
        raise CouldNotRun(f"the audit needs Spark ({error}): {INSTALL}") from error
    from spark.checkpoints import BadKey
    from spark.grants import BadPolicy
    from spark.java import NoJava
    from spark.log_folder import NoLog
    from spark.options import BadOptions
    from spark.session import SparkFailed

    # Spark's bridge to Java logs every Ctrl-C with a traceback, and raises what else it logs.
    logging.root.addFilter(lambda record: record.module != "java_gateway")
    try:
        yield
    except KeyboardInterrupt:
        if endless:
            return
        raise CouldNotRun("the audit was interrupted; there is no report") from None
    except (BadKey, BadPolicy, NoJava, NoLog, BadOptions, SparkFailed, OSError) as error:
        raise CouldNotRun(f"the audit could not run: {error}") from error
    except (pyspark.errors.PySparkException, Py4JError) as error:
        first = [line.removeprefix(": ") for line in str(error).strip().splitlines()[:3]]
        raise CouldNotRun(f"the audit could not run: {' '.join(first)}") from error


def _print(result: Result, target: Path) -> None:
    from spark.report.writing import PAGE

    numbers = result.numbers
    click.echo(
        f"{numbers['messages']} messages in {numbers['batches']} batches, {numbers['topics']}"
        f" topics, {numbers['principals']} principals"
    )
    click.secho(result.verdict, fg="red" if result.findings else "green")
    for row in result.tables["findings"].rows[:FINDINGS_SHOWN_MAX]:
        click.echo(f"  {finding_line(row)}")
    if result.findings > FINDINGS_SHOWN_MAX:
        click.echo(f"  … {result.findings - FINDINGS_SHOWN_MAX} more are in the report")
    click.echo(f"Report: {target / PAGE}")


def finding_line(row: dict[str, Any]) -> str:
    """A finding in one line: what, where, and in words."""
    place = []
    if row["topic"] is not None:
        place.append(f"{row['topic']}/{row['partition']}")
    if row["first_offset"] is not None:
        place.append(f"offsets {row['first_offset']} to {row['last_offset']}")
    if row["file"] is not None:
        place.append(f"{row['file']} at byte {row['position']}")
    return f"{row['kind']}: {', '.join(place) or 'the log'}: {row['text']}"
