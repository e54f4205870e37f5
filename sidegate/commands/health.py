"""`sidegate health`: ask one service whether it is ready, as an image's health check does."""

from __future__ import annotations

from pathlib import Path

import click

from sidegate.development.probe import Probe


@click.command()
@click.argument("url")
@click.option(
    "--ca",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="The certificate authority of an https address.",
)
def health(url: str, ca: Path | None) -> None:
    """Ask one service whether it is ready.

    URL is where its health is, such as http://127.0.0.1:7444.

    Exit code 0 if it is; 1 with the checks that fail if it is not, or if nothing answers.
    """
    verdict = Probe(url.rstrip("/"), ca).ask()
    if not verdict.ready:
        raise click.ClickException(verdict.reason)
    click.echo("ready")
