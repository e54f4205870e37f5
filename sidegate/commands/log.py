"""`sidegate log`: look into a log's files and check them, with no service running."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sidegate.commands.log_proof import check_proof, prove
from sidegate.commands.options import CouldNotRun

if TYPE_CHECKING:
    from sidegate.checker.log_tree import Keys, TreeReport
    from sidegate.checker.tree_files import Claim
    from sidegate.checker.verify import LogReport

SOUND, FINDINGS, COULD_NOT_RUN = 0, 1, 2
FINDINGS_SHOWN_MAX = 50
"""More than a screen of findings hides the first one; --json has them all."""

UNPROVEN_SHOWN_MAX = 3


@click.group("log")
def log() -> None:
    """Read and check the log's files, offline."""


log.add_command(prove)
log.add_command(check_proof)

_path = click.argument(
    "path", type=click.Path(path_type=Path), default=Path(".sidegate"), required=False
)


@log.command()
@_path
@click.option("--jobs", type=click.IntRange(1), help="Processes to use.  [default: all cores]")
@click.option(
    "--key",
    "cores",
    type=click.Path(path_type=Path),
    multiple=True,
    help="The core's public key; several times where it was renewed.  [default: core.pub in PATH]",
)
@click.option(
    "--witness",
    "witnesses",
    type=click.Path(path_type=Path),
    multiple=True,
    help="A gatekeeper's public key; several times for several.  [default: gatekeeper.pub in PATH]",
)
@click.option(
    "--checkpoint",
    "notes",
    type=click.Path(path_type=Path),
    multiple=True,
    help="A checkpoint from elsewhere, such as a gatekeeper's witness/checkpoint; several times "
    "for several.  [default: what the gatekeeper below PATH remembers]",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def verify(
    path: Path,
    jobs: int | None,
    cores: tuple[Path, ...],
    witnesses: tuple[Path, ...],
    notes: tuple[Path, ...],
    *,
    as_json: bool,
) -> None:
    """Check every log below PATH (default .sidegate): structure, hashes, gaps, senders, the tree.

    The tree is computed anew from the batches and held against tiles and checkpoints. What no
    witness has cosigned yet is reported as unproven, and is no fault.

    Exits 0 if the logs are sound, 1 with findings, 2 if the check could not run.
    """
    from sidegate.checker.verify import (
        CannotCheckError,
        find_logs,
        segments_of,
        unmatched,
        verify_log,
    )

    try:
        folders = find_logs(path)
        keys, checkpoints = _keys(path, cores, witnesses), _checkpoints(path, notes)
        size = sum(segment.stat().st_size for folder in folders for segment in segments_of(folder))
        with click.progressbar(
            length=size, label="Checking", file=sys.stderr, hidden=not sys.stderr.isatty()
        ) as bar:
            reports = [
                verify_log(
                    folder,
                    root=path,
                    jobs=jobs,
                    progress=bar.update,
                    keys=keys,
                    checkpoints=checkpoints,
                )
                for folder in folders
            ]
        reports[0].findings += unmatched(folders, checkpoints, keys.cores)
    except (CannotCheckError, OSError) as error:
        click.echo(f"Could not check: {error}", err=True)
        sys.exit(COULD_NOT_RUN)
    if as_json:
        click.echo(json.dumps({"logs": [_report_dict(report) for report in reports]}))
    else:
        for report in reports:
            _print_report(report)
    sys.exit(FINDINGS if any(report.findings for report in reports) else SOUND)


def _keys(path: Path, cores: tuple[Path, ...], witnesses: tuple[Path, ...]) -> "Keys":
    """The keys that were named, else those of a state folder, else none."""
    from log_format.note import SignatureType
    from sidegate.checker.log_tree import Keys
    from sidegate.public_keys import KeyProblem, read_keys

    cores = cores or tuple(filter(None, [_there(path / "core.pub")]))
    gates = witnesses or tuple(filter(None, [_there(path / "gatekeeper.pub")]))
    try:
        return Keys(
            tuple(key for core in cores for key in read_keys(core, SignatureType.ED25519)),
            tuple(key for gate in gates for key in read_keys(gate, SignatureType.COSIGNATURE_V1)),
        )
    except KeyProblem as error:
        raise CouldNotRun(str(error)) from error


def _checkpoints(path: Path, notes: tuple[Path, ...]) -> list["Claim"]:
    from log_format.errors import FormatError
    from sidegate.checker.tree_files import read_claim

    remembered = _there(path / "data" / "gatekeeper" / "witness" / "checkpoint")
    claims = []
    for note in notes or tuple(filter(None, [remembered])):
        try:
            claims.append(read_claim(note, str(note)))
        except FormatError as error:
            raise CouldNotRun(f"{note} is no checkpoint: {error}") from error
    return claims


def _there(path: Path) -> Path | None:
    return path if path.is_file() else None


def _report_dict(report: "LogReport") -> dict[str, Any]:
    return {
        "folder": report.folder,
        "sound": not report.findings,
        "segments": report.segments,
        "bytes": report.size,
        "batches": report.batches,
        "messages": report.records,
        "bodies_removed": report.bodies_removed,
        "torn_bytes": report.torn_bytes,
        "senders_proven": report.senders_proven,
        "tree": None
        if report.tree is None
        else {
            "leaves": report.tree.leaves,
            "checkpoints": report.tree.checkpoints,
            "cosigned": report.tree.cosigned,
            "unproven": report.tree.unproven,
        },
        "topics": report.topics,
        "findings": [finding.as_dict() for finding in report.findings],
    }


def _print_report(report: "LogReport") -> None:
    click.echo(
        f"{report.folder}: {report.records} messages in {report.batches} batches,"
        f" {len(report.topics)} topics, {report.segments} segments, {report.size} bytes"
    )
    if report.bodies_removed:
        click.echo(f"  {report.bodies_removed} bodies were removed by retention")
    if report.torn_bytes:
        click.echo(
            f"  the last {report.torn_bytes} bytes are an incomplete batch, as a crash leaves one"
            " that was not acknowledged yet; the core sees to them when it starts"
        )
    if report.tree is not None:
        _print_tree(report, report.tree)
    if not report.findings:
        click.secho("  sound", fg="green")
        return
    click.secho(f"  {len(report.findings)} findings", fg="red")
    for finding in report.findings[:FINDINGS_SHOWN_MAX]:
        click.echo(f"  {finding}")
    if len(report.findings) > FINDINGS_SHOWN_MAX:
        click.echo(f"  … {len(report.findings) - FINDINGS_SHOWN_MAX} more; --json lists all")


def _print_tree(report: "LogReport", tree: "TreeReport") -> None:
    senders = "no gatekeeper's key was given, so no sender is proven"
    if report.senders_proven is not None:
        senders = f"the senders of {report.senders_proven} batches are proven"
    click.echo(
        f"  tree of {tree.leaves} leaves, {tree.checkpoints} checkpoints, cosigned up to"
        f" {tree.cosigned}; {senders}"
    )
    for text in tree.unproven[-UNPROVEN_SHOWN_MAX:]:
        click.secho(f"  unproven: {text}", fg="yellow")


@log.command()
@_path
@click.option("--topic", help="Only this topic.")
@click.option("--partition", type=click.IntRange(0), help="Only this partition.")
@click.option("--offset", type=click.IntRange(0), help="From this offset on.")
@click.option("--to-offset", type=click.IntRange(0), help="Up to and with this offset.")
@click.option("--principal", help="Only batches that this principal sent.")
@click.option("--since", type=click.DateTime(), help="Appended at or after this UTC time.")
@click.option("--until", type=click.DateTime(), help="Appended before this UTC time.")
@click.option("--batches", is_flag=True, help="Show batches only, without their records.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per batch.")
def dump(path: Path, *, batches: bool, as_json: bool, **chosen: Any) -> None:
    """Print the batches and records of every log below PATH (default .sidegate)."""
    from datetime import UTC

    from sidegate.checker.dump import Filter, dump_segment
    from sidegate.checker.verify import CannotCheckError, find_logs, segments_of

    since, until = (
        None if moment is None else int(moment.replace(tzinfo=UTC).timestamp() * 1_000_000)
        for moment in (chosen["since"], chosen["until"])
    )
    wanted = Filter(
        topic=chosen["topic"],
        partition=chosen["partition"],
        first_offset=chosen["offset"],
        last_offset=chosen["to_offset"],
        principal=chosen["principal"],
        since_us=since,
        until_us=until,
    )
    damaged = False
    try:
        for folder in find_logs(path):
            for segment in segments_of(folder):
                for batch in dump_segment(segment, wanted, records=not batches):
                    damaged = damaged or "damage" in batch
                    click.echo(json.dumps(batch) if as_json else _readable(batch))
    except BrokenPipeError:
        # Whoever reads this, `head` perhaps, has seen enough; click ends the command quietly.
        raise
    except (CannotCheckError, OSError) as error:
        click.echo(f"Could not read: {error}", err=True)
        sys.exit(COULD_NOT_RUN)
    sys.exit(FINDINGS if damaged else SOUND)


@log.command()
@click.argument("source", type=click.Path(path_type=Path, file_okay=False))
@click.argument("target", type=click.Path(path_type=Path, file_okay=False))
def backup(source: Path, target: Path) -> None:
    """Copy the core's data folder SOURCE to TARGET while the core runs, and check the copy.

    The copy is a state that the core recovers from as from a crash: to restore it, make it the
    core's `data` folder. Exits 0 if it is sound, 1 with findings, 2 if it could not be made.
    """
    from sidegate.checker.backup import CannotBackUpError, back_up, bytes_to_copy
    from sidegate.checker.verify import find_logs, verify_log

    try:
        with click.progressbar(
            length=bytes_to_copy(source),
            label="Copying",
            file=sys.stderr,
            hidden=not sys.stderr.isatty(),
        ) as bar:
            done = back_up(source, target, bar.update)
        reports = [
            verify_log(folder, root=target, progress=lambda _: None) for folder in find_logs(target)
        ]
    except (CannotBackUpError, OSError) as error:
        click.echo(f"Could not back up: {error}", err=True)
        sys.exit(COULD_NOT_RUN)
    click.echo(f"Copied {done.files} files, {done.bytes} bytes.")
    for report in reports:
        _print_report(report)
    sys.exit(FINDINGS if any(report.findings for report in reports) else SOUND)


def _readable(batch: dict[str, Any]) -> str:
    if "topic" not in batch:
        return click.style(f"{batch['file']} at {batch['position']}: {batch['damage']}", fg="red")
    first, last = batch.get("first_offset", 0), batch.get("first_offset", 0) + batch["count"] - 1
    sender = batch.get("principal", "the core itself")
    head = click.style(f"{batch['topic']}/{batch['partition']}", bold=True)
    place = f"{head} offsets {first} to {last}, leaf {batch.get('leaf')}, {batch.get('appended')}"
    lines = [f"{place}, by {sender}, {batch['bytes']} bytes, body {batch['body']}"]
    if "damage" in batch:
        lines.append(click.style(f"  damage: {batch['damage']}", fg="red"))
    for record in batch.get("records", ()):
        key = f" key={record['key']!r}" if "key" in record else ""
        lines.append(f"  {record['offset']}{key} {json.dumps(record.get('value'))}")
    return "\n".join(lines)
