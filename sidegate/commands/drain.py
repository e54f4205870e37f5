"""`sidegate drain`: wait until a sidecar has sent all that it has, as a pod does when it stops."""

from __future__ import annotations

import time

import click

from sidegate.client import Connection, Unreachable
from sidegate.commands.options import ask, sidecar, unreachable, url_option

POLL_S = 0.2
"""A sidecar sends thousands of messages in this time; a shorter pause would hurry nobody."""


@click.command()
@url_option
@click.option(
    "--timeout", type=click.FloatRange(min=0), default=30.0, show_default=True, help="Seconds."
)
def drain(url: str | None, timeout: float) -> None:
    """Wait until a sidecar has sent all it has.

    Exit code 0 when its queues and spool are empty, 1 when messages are left after --timeout, 2 if
    no sidecar answers.
    """
    end = time.monotonic() + timeout
    try:
        with sidecar(url) as connection:
            while left := _left(connection):
                if time.monotonic() >= end:
                    raise click.ClickException(
                        f"{left} messages are not sent after {timeout:g} s; they stay in the "
                        "sidecar's data folder and are sent when it runs again"
                    )
                time.sleep(POLL_S)
    except Unreachable as error:
        unreachable(error)
    click.echo("Everything is sent.")


def _left(connection: Connection) -> int:
    status = ask(connection, "GET", "/status", as_json=False).document()
    queues = status["queues"]
    return int(
        status["spool"]["messages"] + queues["waiting_messages"] + queues["unsettled_batches"]
    )
