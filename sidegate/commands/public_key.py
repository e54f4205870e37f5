"""`sidegate public-key`: the public key of a core or gatekeeper, for whoever checks the log."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from sidegate.commands.options import CouldNotRun
from sidegate.commands.serve import SERVICES, _imported
from sidegate.public_keys import KeyProblem, core_key, gatekeeper_key


@click.command("public-key")
@click.argument("service", type=click.Choice(["core", "gatekeeper"]))
@click.option(
    "--config",
    "path",
    required=True,
    type=click.Path(path_type=Path, dir_okay=False),
    help="The service's YAML file, on the service's own host.",
)
def public_key(service: str, path: Path) -> None:
    """Print the public key of a core or gatekeeper, as one line.

    Bring the core's to every gatekeeper (core.public_key) and both to whoever checks the log.
    """
    config = load(service, path)
    try:
        if service == "core":
            if config.signing_key is None:
                raise CouldNotRun(f"{path} names no signing_key, so this core signs nothing")
            key = core_key(config.signing_key, config.data)
        else:
            key = gatekeeper_key(config.signing_key, config.id)
    except KeyProblem as error:
        raise CouldNotRun(str(error)) from error
    click.echo(str(key))


def load(service: str, path: Path) -> Any:
    """A service's configuration, or the command's end with all its problems."""
    from hosting.config import ConfigError, load_config

    cls = _imported(SERVICES[service][0])
    try:
        return load_config(cls, service=service, path=path, environ=os.environ)
    except ConfigError as error:
        raise CouldNotRun(f"{path} can't be used:\n{error}") from error
