"""What several commands share: their options, and how they fail.

Exit codes: 1 for a refusal or a failure, 2 where the command could not run at all.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import click

from sidegate.client import Answer, Connection, Refused, Unreachable

DEFAULT_URL = "http://127.0.0.1:9000"
STATE_FOLDER = Path(".sidegate")
APP_TOKEN_FILE = "SIDEGATE_SIDECAR_APP_TOKEN"  # noqa: S105 - a variable's name
"""The variable that the sidecar itself reads: the file with its app's secret."""
NEXT_STEPS = {
    "unknown_topic": "`sidegate topics list` shows the topics that there are.",
    "unknown_subscription": "`sidegate subscriptions list` shows those that there are.",
    "unknown_channel": "`sidegate channels list` shows those that there are.",
}
"""What to do about a refusal, for people at a terminal, by the problem's code."""

F = TypeVar("F", bound=Callable[..., Any])


class CouldNotRun(click.ClickException):
    """There is nothing to talk to, or something needed is missing."""

    exit_code = 2


def state_option(command: F) -> F:
    """`--state`: the development environment's folder."""
    return click.option(
        "--state",
        "folder",
        type=click.Path(path_type=Path, file_okay=False),
        default=STATE_FOLDER,
        show_default=True,
        help="The folder of the development environment.",
    )(command)


def url_option(command: F) -> F:
    """`--url`: the sidecar to talk to."""
    return click.option(
        "--url",
        envvar="SIDEGATE_URL",
        help=f"The local sidecar.  [default: the one of `sidegate up`, else {DEFAULT_URL}]",
    )(command)


def json_option(command: F) -> F:
    """`--json`: answers for programs."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON.")(command)


def sidecar(url: str | None) -> Connection:
    """A connection to the sidecar that the user means."""
    try:
        return Connection(url or _running_url() or DEFAULT_URL, headers=app_token())
    except Unreachable as error:
        raise CouldNotRun(str(error)) from error


def invocation() -> str:
    """How this command can be called again from the same folder, to be pasted."""
    if shutil.which("sidegate") is not None:
        return "sidegate"
    called = Path(sys.argv[0])
    if called.name == "sidegate":
        return str(called)
    return f"{sys.executable} -m sidegate"


def ask(
    connection: Connection, method: str, path: str, document: object = None, *, as_json: bool
) -> Answer:
    """The sidecar's answer, or the command's end with the reason."""
    try:
        answer = connection.request(method, path, document)
    except Unreachable as error:
        unreachable(error)
    if not answer.ok:
        refuse(answer, as_json=as_json)
    return answer


def refuse(answer: Answer, *, as_json: bool) -> NoReturn:
    """End with exit code 1 and what the sidecar said."""
    if as_json:
        click.echo(json.dumps(answer.document() or {"status": answer.status}), err=True)
        raise click.exceptions.Exit(1)
    document = answer.document()
    code = document.get("code") if isinstance(document, dict) else None
    next_step = NEXT_STEPS.get(str(code))
    text = f"{answer.problem()}\n{next_step}" if next_step else answer.problem()
    raise click.ClickException(text) from Refused(answer)


def unreachable(error: Unreachable) -> NoReturn:
    """End with exit code 2 and what to do."""
    raise CouldNotRun(
        f"{error}\nStart the mesh with `make up`, or name another sidecar with --url."
    ) from error


def app_token() -> dict[str, str]:
    """What a sidecar with an `app_token` asks for: the content of the file that it reads too."""
    file = os.environ.get(APP_TOKEN_FILE)
    if not file:
        return {}
    try:
        token = Path(file).read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise CouldNotRun(f"{APP_TOKEN_FILE}: {file} can't be read: {error}") from error
    return {"Authorization": f"Bearer {token}"}


def _running_url() -> str | None:
    """The sidecar of the mesh that runs in this folder, wherever its ports were moved to."""
    try:
        record = json.loads((STATE_FOLDER / "run" / "up.json").read_bytes())
    except (OSError, ValueError):
        return None
    url = record.get("url") if isinstance(record, dict) else None
    return url if isinstance(url, str) and os.environ.get("SIDEGATE_URL") is None else None
