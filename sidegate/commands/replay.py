"""`sidegate replay`: deliver a range of a topic again, to one push subscription alone."""

from __future__ import annotations

import json
import time
from typing import Any

import click

from sidegate.client import Connection
from sidegate.commands.options import ask, json_option, refuse, sidecar, url_option
from sidegate.commands.subscriptions import owner_option, path_of

LOOK_S = 0.5
"""How often --wait looks whether it is over."""
NOT_FOUND = 404


@click.command()
@click.argument("topic")
@click.option("--from", "start", required=True, help="earliest, offset:N or time:…")
@click.option("--to", "end", help="Where it ends, and not with it.  [default: what is there now]")
@click.option("--to-subscription", "name", required=True, metavar="NAME", help="Who gets it.")
@click.option("--partition", type=click.IntRange(min=0), help="Only this one.")
@click.option("--wait", is_flag=True, help="Come back when all of it is delivered.")
@owner_option
@url_option
@json_option
def replay(
    topic: str,
    start: str,
    end: str | None,
    name: str,
    partition: int | None,
    owner: str | None,
    url: str | None,
    *,
    wait: bool,
    as_json: bool,
) -> None:
    """Deliver a range again to one push subscription.

    Nobody else gets it, and no place moves. Deliveries are marked with Sidegate-Replay; the
    gatekeeper decides and notes it like every other reading of history.
    """
    wanted = {"from": start, "to": end, "partition": partition}
    document = {key: value for key, value in wanted.items() if value is not None}
    with sidecar(url) as connection:
        found = ask(connection, "GET", path_of(name, owner=owner), as_json=as_json).document()
        if found["topic"] != topic:
            raise click.ClickException(
                f"{name} is a subscription on {found['topic']}, not {topic}."
            )
        path = path_of(name, "replay", owner=owner)
        answer = ask(connection, "POST", path, document, as_json=as_json)
        started: dict[str, Any] = answer.document()
        if as_json:
            click.echo(json.dumps(started))
        elif started["subscription"] is None:
            click.echo(f"There is nothing of {topic} in that range.")
        else:
            click.echo(
                f"Up to {started['messages_max']} messages of {topic} go to {name} again, by the "
                f"subscription {started['subscription']}, which then goes away."
            )
        if wait and started["subscription"] is not None:
            _wait(connection, path_of(started["subscription"], owner=owner), as_json=as_json)


def _wait(connection: Connection, path: str, *, as_json: bool) -> None:
    while True:
        answer = connection.request("GET", path)
        if answer.status == NOT_FOUND:
            return
        if not answer.ok:
            refuse(answer, as_json=as_json)
        time.sleep(LOOK_S)
