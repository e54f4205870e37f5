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
@click.option(
    "--signing-key",
    "private",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The private key, where the configuration leaves it to a signer.",
)
def public_key(service: str, path: Path, private: Path | None) -> None:
    """Print the public key of a core or gatekeeper, as one line.

    Bring the core's to every gatekeeper (core.public_key) and both to whoever checks the log.
    """
    config = load(service, path)
    try:
        private = private or config.signing_key
        if private is None:
            raise CouldNotRun(
                f"{path} names no signing_key; where a signer has it, name its file with"
                " --signing-key, as a user who may read it"
            )
        if service == "core":
            key = core_key(private, config.data)
        else:
            key = gatekeeper_key(private, config.id)
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
