"""`sidegate witness`: what a gatekeeper remembers of the core's log, and an operator's last word.

Works on the gatekeeper's files, on its own host. What a running gatekeeper thinks of the core is
in `sidegate status` and on its health page.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from log_format.checkpoint_note import parse_tree_head, verified_signatures
from log_format.errors import FormatError
from log_format.note import NOTE_BYTES_MAX, SignatureType, parse_note
from sidegate.commands.options import CouldNotRun, json_option
from sidegate.commands.public_key import load
from sidegate.public_keys import KeyProblem, read_keys


@click.group("witness")
def witness() -> None:
    """Show what a gatekeeper remembers of the log; decide after an alarm."""


_config = click.option(
    "--config",
    "path",
    type=click.Path(path_type=Path, dir_okay=False),
    default=Path(".sidegate/gatekeeper.yaml"),
    show_default=True,
    help="The gatekeeper's YAML file, on its own host.",
)


@witness.command()
@_config
@json_option
def show(path: Path, *, as_json: bool) -> None:
    """Show the last checkpoint, the alarm that stands, and the evidence.

    Exits 1 where an alarm stands or the memory is lost.
    """
    memory = _memory(load("gatekeeper", path))
    try:
        found = memory.load()
        evidence = sorted(memory.evidence.iterdir()) if memory.evidence.is_dir() else []
    except OSError as error:
        raise CouldNotRun(f"{memory.folder}: {error.strerror}") from error
    told: dict[str, Any] = {
        "folder": str(memory.folder),
        "origin": found.head.origin if found.head else None,
        "size": found.head.size if found.head else None,
        "root": found.head.root.hex() if found.head else None,
        "alarm": found.alarm,
        "lost": found.lost,
        "evidence": [str(each) for each in evidence],
    }
    if as_json:
        click.echo(json.dumps(told))
    else:
        if found.head is None:
            click.echo(f"{memory.folder}: no checkpoint is remembered")
        else:
            click.echo(f"{found.head.origin}: {found.head.size} leaves, {found.head.root.hex()}")
        for name in ("alarm", "lost"):
            if told[name]:
                click.secho(f"{name}: {told[name]}", fg="red")
        for each in told["evidence"]:
            click.echo(f"evidence: {each}")
    raise click.exceptions.Exit(1 if found.alarm or found.lost else 0)


@witness.command()
@click.argument("note", type=click.Path(path_type=Path, dir_okay=False, exists=True))
@_config
def trust(note: Path, path: Path) -> None:
    """Begin anew with the checkpoint in the file NOTE, and end the alarm.

    For an operator who has compared the evidence with other witnesses and copies of the log, and
    decided which history stands. Stop the gatekeeper first; the evidence stays.
    """
    config = load("gatekeeper", path)
    if config.core.public_key is None:
        raise CouldNotRun(f"{path}: core.public_key is not set, so this gatekeeper is no witness")
    try:
        (key,) = read_keys(config.core.public_key, SignatureType.ED25519)[:1]
        with note.open("rb") as file:
            parsed = parse_note(file.read(NOTE_BYTES_MAX + 1))
        head = parse_tree_head(parsed.text)
        signed = verified_signatures(parsed, [key], _verify)
    except KeyProblem as error:
        raise CouldNotRun(str(error)) from error
    except FormatError as error:
        raise click.ClickException(f"{note}: {error}") from error
    if not signed or head.origin != key.name:
        raise click.ClickException(f"{note} is no checkpoint that {key.name} has signed")
    try:
        _memory(config).begin_anew(str(parsed), head.origin)
    except OSError as error:
        raise CouldNotRun(f"{error.filename}: {error.strerror}") from error
    click.echo(f"{head.origin} is trusted from {head.size} leaves on; start the gatekeeper again")


def _memory(config: Any) -> Any:
    from gatekeeper.witness.witness_memory import WitnessMemory

    return WitnessMemory(config.data)


def _verify(public: bytes, message: bytes, signature: bytes) -> bool:
    from gatekeeper.witness.ed25519 import verify

    return verify(public, message, signature)
