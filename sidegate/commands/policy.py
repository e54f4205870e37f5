"""`sidegate policy`: check a policy file, run its tests, explain a decision. All of it offline.

Reads the file and prints; what there is to say comes from `gatekeeper.policy.report`. Exits 0 if
all is well, 1 with problems or a denial, 2 if it could not run.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, cast

import click

from sidegate.commands.options import STATE_FOLDER, CouldNotRun, json_option

if TYPE_CHECKING:
    from gatekeeper.policy.document import Action
    from gatekeeper.policy.report import Report
    from hosting.environment import Environment

DEFAULT_FILE = STATE_FOLDER / "policy.yaml"
# Spelt out, because the help must not import the gatekeeper; a test holds the two together.
ACTIONS = ("publish", "subscribe", "replay", "share", "admin", "audit")
ENVIRONMENTS = ("development", "production")

_file = click.argument(
    "file", type=click.Path(path_type=Path, dir_okay=False), default=DEFAULT_FILE, required=False
)


@click.group()
def policy() -> None:
    """Check a policy file, run its tests, explain a decision."""


@policy.command()
@_file
@click.option(
    "--environment",
    type=click.Choice(ENVIRONMENTS),
    help="Check for this environment, as the gatekeeper will.",
)
@json_option
def check(file: Path, environment: str | None, *, as_json: bool) -> None:
    """Report every problem of FILE (default .sidegate/policy.yaml), with its line."""
    from gatekeeper.policy.report import report_check

    report = report_check(_read(file), file, cast("Environment | None", environment))
    _finish(report, as_json=as_json)


@policy.command()
@_file
@json_option
def test(file: Path, *, as_json: bool) -> None:
    """Run the tests that FILE (default .sidegate/policy.yaml) holds, and show each answer."""
    from gatekeeper.policy.report import report_tests

    _finish(report_tests(_read(file), file), as_json=as_json)


@policy.command()
@click.option("--as", "caller", required=True, help="A principal's name, or a SPIFFE id.")
@click.option("--do", "action", type=click.Choice(ACTIONS), required=True, help="The action.")
@click.option("--on", "topic", required=True, help="The topic.")
@click.option("--owner", default="", help="For share: whose subscription it is.")
@click.option(
    "--claim",
    "claims",
    multiple=True,
    metavar="ISSUER:NAME=VALUE",
    help="What the caller's token holds besides; twice makes a list.",
)
@click.option(
    "--scope", "scopes", multiple=True, metavar="ISSUER:SCOPE", help="A scope of its token."
)
@click.option(
    "--file",
    type=click.Path(path_type=Path, dir_okay=False),
    default=DEFAULT_FILE,
    show_default=True,
    help="The policy.",
)
@json_option
def explain(
    caller: str,
    action: str,
    topic: str,
    owner: str,
    claims: tuple[str, ...],
    scopes: tuple[str, ...],
    file: Path,
    *,
    as_json: bool,
) -> None:
    """Show which rule decides, why, and the nearest rule that would have allowed."""
    from gatekeeper.policy.report import Question, report_explain

    question = Question(caller, cast("Action", action), topic, claims, scopes, owner)
    _finish(report_explain(_read(file), file, question), as_json=as_json)


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise CouldNotRun(
            f"{file} can't be read: {error.strerror or error}\n"
            "Name a policy file, or make the development one with `make up`."
        ) from error


def _finish(report: Report, *, as_json: bool) -> NoReturn:
    if as_json:
        click.echo(json.dumps(report.data))
    else:
        first, _, rest = report.text.partition("\n")
        click.secho(first, fg="green" if report.exit_code == 0 else "red")
        if rest:
            click.echo(rest)
    sys.exit(report.exit_code)
