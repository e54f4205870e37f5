"""What the operators' commands share: how they find the gatekeeper's admin port, and their end."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from sidegate.client import Answer, Unreachable
from sidegate.commands.options import STATE_FOLDER, CouldNotRun, refuse
from sidegate.operator import (
    DEFAULT_ADMIN,
    OPERATOR,
    NoSecret,
    Operator,
    read_secret,
    running_admin,
)

F = TypeVar("F", bound=Callable[..., Any])


def admin_options(command: F) -> F:
    """`--admin` and `--secret`: which gatekeeper, and as whom."""
    for option in (
        click.option(
            "--secret",
            type=click.Path(path_type=Path, dir_okay=False),
            envvar="SIDEGATE_ADMIN_SECRET_FILE",
            help="The file with your operator's secret.  [default: the one of `sidegate up`]",
        ),
        click.option(
            "--admin",
            metavar="URL",
            envvar="SIDEGATE_ADMIN_URL",
            help=f"The gatekeeper's admin port.  [default: the one of `sidegate up`, "
            f"else {DEFAULT_ADMIN}]",
        ),
    ):
        command = option(command)
    return command


def ask_admin(
    admin: str | None,
    secret: Path | None,
    method: str,
    path: str,
    document: object = None,
    *,
    as_json: bool,
) -> Answer:
    """The gatekeeper's answer, or the command's end with the reason."""
    url = admin or running_admin(STATE_FOLDER) or DEFAULT_ADMIN
    try:
        with Operator(url, read_secret(secret or STATE_FOLDER / OPERATOR)) as operator:
            answer = operator.ask(method, path, document)
    except NoSecret as error:
        raise CouldNotRun(str(error)) from error
    except Unreachable as error:
        raise CouldNotRun(
            f"{error}\nStart the mesh with `make up`, or name a gatekeeper's admin port with "
            "--admin; it listens on the gatekeeper's own machine only."
        ) from error
    if not answer.ok:
        refuse(answer, as_json=as_json)
    return answer
