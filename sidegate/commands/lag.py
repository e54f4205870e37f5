"""`sidegate lag`: how far behind the subscriptions are, and why."""

from __future__ import annotations

import json
from typing import Any

import click

from sidegate.commands.options import ask, json_option, sidecar, url_option
from sidegate.commands.subscriptions import owner_option, path_of
from sidegate.table import table

ERROR_CHARACTERS_MAX = 60


@click.command()
@click.argument("names", nargs=-1, metavar="[NAME]...")
@owner_option
@url_option
@json_option
def lag(names: tuple[str, ...], owner: str | None, url: str | None, *, as_json: bool) -> None:
    """Show how far behind subscriptions are, and why."""
    with sidecar(url) as connection:
        if not names:
            listed = ask(connection, "GET", path_of(None, owner=owner), as_json=as_json).document()
            names = tuple(each["name"] for each in listed["subscriptions"])
        found = [
            ask(connection, "GET", path_of(name, owner=owner), as_json=as_json).document()
            for name in names
        ]
    found.sort(key=lambda each: -int(each["lag"]))
    if as_json:
        click.echo(json.dumps({"subscriptions": [_short(each) for each in found]}))
        return
    rows = [["SUBSCRIPTION", "TOPIC", "LAG", "IN FLIGHT", "MEMBERS", "STATE", "LAST ERROR"]]
    rows += [
        [
            each["name"],
            each["topic"],
            str(each["lag"]),
            str(each["in_flight"]),
            str(len(each["members"])),
            _state(each),
            _error(each)[:ERROR_CHARACTERS_MAX],
        ]
        for each in found
    ]
    click.echo(table(rows) if found else "There are no subscriptions.")


def _short(each: dict[str, Any]) -> dict[str, Any]:
    names = ("name", "owner", "topic", "state", "lag", "in_flight", "cursors", "delivery")
    return {name: each.get(name) for name in names}


def _state(each: dict[str, Any]) -> str:
    delivery = each.get("delivery")
    if each["state"] != "active" or not delivery or delivery["state"] == "elsewhere":
        return str(each["state"])
    return str(delivery["state"])


def _error(each: dict[str, Any]) -> str:
    return str((each.get("delivery") or {}).get("last_error") or "")
