"""`sidegate log prove` and `log check-proof`: one message, proven to somebody elsewhere."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sidegate.commands.options import CouldNotRun

if TYPE_CHECKING:
    from log_format.note import VerifierKey
    from log_format.proof import Proof, Proven
    from sidegate.checker.proving import Located
    from sidegate.checker.tree_files import Claim

PROVEN, NOT_PROVEN = 0, 1
LOOK_AGAIN_S = 0.2
"""Between two looks for a new checkpoint; one comes every second."""


@click.command()
@click.argument("topic")
@click.argument("partition", type=click.IntRange(0))
@click.argument("offset", type=click.IntRange(0))
@click.option(
    "--log",
    "root",
    type=click.Path(path_type=Path),
    default=Path(".sidegate"),
    show_default=True,
    help="The state folder, or the folder of the core's log.",
)
@click.option(
    "--wait",
    "wait_s",
    type=click.FloatRange(0, 3600),
    default=5.0,
    show_default=True,
    help="Seconds to wait until a cosigned checkpoint covers the message.",
)
@click.option("--no-body", is_flag=True, help="Leave the batch's content out of the proof.")
def prove(
    topic: str, partition: int, offset: int, root: Path, wait_s: float, *, no_body: bool
) -> None:
    """Print the proof of one message as JSON, from the log's files.

    Whoever has it and the public keys can check it with `sidegate log check-proof`, without the
    log. Exits 1 where the message is not there, or no checkpoint covers it yet.
    """
    from sidegate.checker.proving import CannotProve, find_batch
    from sidegate.checker.proving import prove as make
    from sidegate.checker.verify import CannotCheckError

    try:
        folder = _log_with_tree(root)
        located = find_batch(folder, topic, partition, offset)
        claim, cosigned = _covering(folder, located, _witnesses(root), wait_s)
        proof = make(folder, located, offset, claim, body=not no_body)
    except CannotProve as error:
        raise click.ClickException(str(error)) from error
    except (CannotCheckError, OSError) as error:
        raise CouldNotRun(str(error)) from error
    if not cosigned:
        click.echo(
            f"No witness has cosigned a checkpoint of this message within {wait_s:g} s: the core's"
            " word alone is in this proof.",
            err=True,
        )
    if located.body is None:
        click.echo("Retention has removed the content; the proof is without it.", err=True)
    click.echo(json.dumps(proof.as_json(), indent=2))


def _covering(
    folder: Path, located: Located, witnesses: list[VerifierKey], wait_s: float
) -> tuple[Claim, bool]:
    from sidegate.checker.proving import CannotProve, best_claim
    from sidegate.checker.tree_files import TreeFiles

    deadline = time.monotonic() + wait_s
    while True:
        claims = TreeFiles(folder, folder).claims
        claim, cosigned = best_claim(claims, located.leaf, witnesses)
        if cosigned or time.monotonic() >= deadline:
            break
        time.sleep(LOOK_AGAIN_S)
    if claim is None:
        greatest = max((each.head.size for each in claims), default=0)
        raise CannotProve(
            f"no checkpoint covers leaf {located.leaf} yet: the newest is of {greatest} leaves; is"
            " the core running, and has it a signing_key?"
        )
    return claim, cosigned


def _log_with_tree(root: Path) -> Path:
    from sidegate.checker.tree_files import TREE_FOLDER
    from sidegate.checker.verify import CannotCheckError, find_logs

    logs = find_logs(root)
    trees = [log for log in logs if (log / TREE_FOLDER).is_dir()]
    if len(trees) != 1:
        found = "none has" if not trees else f"{len(trees)} have"
        raise CannotCheckError(
            f"of {len(logs)} logs below {root}, {found} a tree; name the core's folder with --log"
        )
    return trees[0]


def _witnesses(root: Path) -> list[VerifierKey]:
    from log_format.note import SignatureType
    from sidegate.public_keys import KeyProblem, read_keys

    try:
        return read_keys(root / "gatekeeper.pub", SignatureType.COSIGNATURE_V1)
    except KeyProblem:
        return []


@click.command("check-proof")
@click.argument("file", type=click.Path(path_type=Path, allow_dash=True))
@click.option(
    "--key",
    "cores",
    type=click.Path(path_type=Path),
    multiple=True,
    required=True,
    help="The core's public key; several times where it was renewed.",
)
@click.option(
    "--witness",
    "witnesses",
    type=click.Path(path_type=Path),
    multiple=True,
    help="A gatekeeper's public key; may be given several times.",
)
@click.option("--no-witness", is_flag=True, help="Take the core's word alone, also for the sender.")
@click.option("--ignore-unknown", is_flag=True, help="Pass over signatures of keys not given.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def check_proof(
    file: Path,
    cores: tuple[Path, ...],
    witnesses: tuple[Path, ...],
    *,
    no_witness: bool,
    ignore_unknown: bool,
    as_json: bool,
) -> None:
    """Check a proof with public keys alone; no log and no service is asked.

    Exits 0 if it is proven, 1 if it is not, 2 if the check could not run.
    """
    from log_format.note import SignatureType
    from log_format.proof import PROOF_BYTES_MAX, NotProven, read_proof
    from log_format.proof import check_proof as check
    from sidegate.checker.signatures import verify
    from sidegate.public_keys import KeyProblem, read_keys

    if bool(witnesses) == no_witness:
        raise click.UsageError("give --witness with a gatekeeper's public key, or --no-witness")
    try:
        owned = [key for path in cores for key in read_keys(path, SignatureType.ED25519)]
        keys = [key for path in witnesses for key in read_keys(path, SignatureType.COSIGNATURE_V1)]
        with click.open_file(str(file), "rb") as opened:
            text = opened.read(PROOF_BYTES_MAX + 1)
    except KeyProblem as error:
        raise CouldNotRun(str(error)) from error
    except OSError as error:
        raise CouldNotRun(f"{file}: {error.strerror}") from error
    try:
        proof = read_proof(text)
        core = _signer(proof, owned)
        proven = check(proof, core, keys, verify, ignore_unknown=ignore_unknown)
    except NotProven as error:
        if as_json:
            click.echo(json.dumps({"proven": False, "reason": str(error)}))
        else:
            click.secho("not proven", fg="red", nl=False)
            click.echo(f": {error}")
        sys.exit(NOT_PROVEN)
    told = _told(proven)
    click.echo(json.dumps(told) if as_json else _readable(told))
    sys.exit(PROVEN)


def _signer(proof: Proof, cores: list[VerifierKey]) -> VerifierKey:
    """Of the keys that the core has had, the one that the checkpoint says it is under; whether it
    is remains to be checked."""
    from log_format.errors import FormatError
    from log_format.note import parse_note

    try:
        lines = parse_note(proof.checkpoint).signatures
    except FormatError:
        return cores[0]
    return next((key for key in cores if any(line.is_by(key) for line in lines)), cores[0])


def _told(proven: Proven) -> dict[str, Any]:
    from sidegate.checker.dump import record_of, time_text

    record = None
    if proven.body is not None and not proven.envelope.encrypted:
        record = record_of(proven.envelope, proven.body, proven.offset)
    return {
        "proven": True,
        "topic": proven.envelope.producer.topic,
        "partition": proven.envelope.producer.partition,
        "offset": proven.offset,
        "principal": proven.provenance.principal,
        "gatekeeper": proven.provenance.gatekeeper_id,
        "appended": time_text(proven.stamp.append_us),
        "leaf": proven.stamp.leaf,
        "log": proven.head.origin,
        "size": proven.head.size,
        "cosigned": [
            {"witness": each.key.name, "at": time_text((each.time_s or 0) * 1_000_000)}
            for each in proven.cosigned
        ],
        "record": record,
    }


def _readable(told: dict[str, Any]) -> str:
    place = f"{told['topic']}/{told['partition']} offset {told['offset']}"
    lines = [
        click.style("proven", fg="green")
        + f": {place} was sent by {told['principal']} and appended at {told['appended']}",
        f"  the sender is vouched for by {told['gatekeeper']}",
        f"  leaf {told['leaf']} of {told['size']} in {told['log']}",
    ]
    lines += [f"  cosigned by {each['witness']} at {each['at']}" for each in told["cosigned"]]
    if not told["cosigned"]:
        lines.append("  no witness: the core's word alone")
    if told["record"] is None:
        lines.append("  the content is not part of this proof")
    else:
        lines.append(f"  {json.dumps(told['record'])}")
    return "\n".join(lines)
