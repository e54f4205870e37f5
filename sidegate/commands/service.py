"""`sidegate service`: further services for the development environment, each with its sidecar."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import click

from sidegate.commands.options import CouldNotRun, invocation, json_option, state_option
from sidegate.development.addresses import AddressError, Addresses, chosen
from sidegate.development.ca import utc_now
from sidegate.development.introduction import introduce
from sidegate.development.probe import Probe, Verdict
from sidegate.development.room import NoRoom, writing
from sidegate.development.running import BusyError, Running
from sidegate.development.service_add import AddError, Wanted
from sidegate.development.service_add import add as add_service
from sidegate.development.services import (
    PORT_MAX,
    AddedService,
    check_name,
    check_pattern,
)
from sidegate.development.state import State, StateError
from sidegate.table import table


@click.group()
def service() -> None:
    """Add services to the development mesh, and list them."""


@service.command()
@click.argument("name")
@click.option(
    "--publish",
    multiple=True,
    metavar="TOPIC",
    help="A topic or pattern that it may publish to, besides its own. May be repeated.",
)
@click.option(
    "--subscribe",
    multiple=True,
    metavar="TOPIC",
    help="A topic or pattern that it may subscribe to, besides its own. May be repeated.",
)
@click.option(
    "--port",
    type=click.IntRange(1, PORT_MAX),
    help="Where its sidecar listens on 127.0.0.1; the next port is for TCP.  "
    "[default: the first that is free of 9010, …]",
)
@state_option
@json_option
def add(
    name: str,
    publish: tuple[str, ...],
    subscribe: tuple[str, ...],
    port: int | None,
    folder: Path,
    *,
    as_json: bool,
) -> None:
    """Make a service's key, certificate, OAuth client, policy entry and sidecar configuration.

    It may publish, subscribe and replay on its own topics, NAME and all below it, and do nothing
    else until --publish and --subscribe or the policy say so. A mesh that runs takes it up at once.
    The same again changes nothing; with further options it adds what they allow.
    """
    wanted = _wanted(name, port, publish, subscribe)
    state = State(folder)
    running = Running(state.run)
    try:
        with writing(folder):
            state.make_folders()
            state.try_writing()
        with running.changing():
            where = _addresses(state, running)
            added = add_service(state, where, wanted, utc_now())
        verdict = introduce(state, where, added) if running.is_up() else None
        facts = _facts(state, added, verdict)
    except (StateError, AddError, AddressError, NoRoom) as error:
        raise CouldNotRun(str(error)) from error
    except BusyError:
        raise CouldNotRun(
            f"another command has been changing {folder} for a while; end it and try again"
        ) from None
    click.echo(json.dumps(facts) if as_json else _text(state, added, facts))
    if verdict is not None and not verdict.ready:
        raise click.ClickException(
            f"the running mesh has not taken {name} up: {verdict.reason}\n"
            "Restart it with `make down` and `make up`."
        )


@service.command("list")
@state_option
@json_option
def list_services(folder: Path, *, as_json: bool) -> None:
    """List the services that were added."""
    state = State(folder)
    try:
        listed = [_facts(state, added, None) for added in state.services()]
    except StateError as error:
        raise CouldNotRun(str(error)) from error
    for facts in listed:
        facts["ready"] = Probe(facts["url"]).ask().ready
    if as_json:
        click.echo(json.dumps({"services": listed}))
        return
    rows = [["SERVICE", "URL", "CONFIG", "SIDECAR"]]
    rows += [
        [one["name"], one["url"], one["config"], "ready" if one["ready"] else "not running"]
        for one in listed
    ]
    empty = f"There are none; `{invocation()} service add NAME` adds one."
    click.echo(table(rows) if listed else empty)


def _wanted(
    name: str, port: int | None, publish: tuple[str, ...], subscribe: tuple[str, ...]
) -> Wanted:
    try:
        check_name(name)
        for pattern in (*publish, *subscribe):
            check_pattern(pattern)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    return Wanted(name, port, publish, subscribe)


def _addresses(state: State, running: Running) -> Addresses:
    """Where the mesh listens: as it runs, or as it would be started."""
    record = running.record() or {}
    return chosen(record.get("addresses") or os.environ, state.own_addresses())


def _facts(state: State, added: AddedService, verdict: Verdict | None) -> dict[str, Any]:
    config = state.root / added.config
    return {
        "name": added.name,
        "principal": added.name,
        "spiffe_id": added.spiffe_id,
        "client_id": added.name,
        "url": f"http://{state.listen_of(added)}",
        "config": str(config),
        "certificate": str(state.root / "certs" / f"{added.name}.pem"),
        "grants": {pattern: list(actions) for pattern, actions in added.grants().items()},
        "mesh": "down" if verdict is None else "ready" if verdict.ready else "not_ready",
        "start": f"{invocation()} sidecar --config {config}",
    }


def _text(state: State, added: AddedService, facts: dict[str, Any]) -> str:
    url = facts["url"].replace("127.0.0.1", "localhost")
    place = url.removeprefix("http://")
    grants = "\n".join(
        f"  {', '.join(actions)} on {pattern}" for pattern, actions in facts["grants"].items()
    )
    if facts["mesh"] == "ready" and Probe(facts["url"]).ask().ready:
        return f"""\
{added.name} is {added.spiffe_id}, and its sidecar runs at {place}.
By what `service add` gave it in {state.config("policy")}, it may:
{grants}

The running mesh knows it.
"""
    mesh = {
        "ready": "The running mesh knows it. Start its sidecar, in a terminal of its own:",
        "not_ready": "Its sidecar is started, in a terminal of its own, with:",
        "down": "Start the mesh with `make up`, then its sidecar, in a terminal of its own:",
    }[facts["mesh"]]
    return f"""\
{added.name} is {added.spiffe_id}, with a sidecar of its own at {place}.
At first, by {state.config("policy")}, it may:
{grants}

{mesh}

  {facts["start"]}

Then, in another:

  # receive
  curl -sN {place}/subscribe/{added.name}

  # publish
  curl -s {place}/publish -d '{{"topic":"{added.name}","message":{{"hello":"world"}}}}'

  # who it is, and what it may do
  {invocation()} whoami --url {url}
"""
