"""`sidegate channels`: named destinations of pushes, through the local sidecar."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

import click

from sidegate.commands.options import ask, json_option, sidecar, url_option
from sidegate.table import table


@click.group()
def channels() -> None:
    """List, show, set and delete named destinations of pushes."""


@channels.command("list")
@url_option
@json_option
def list_channels(url: str | None, *, as_json: bool) -> None:
    """List the channels."""
    with sidecar(url) as connection:
        answer = ask(connection, "GET", "/channels", as_json=as_json)
    if as_json:
        click.echo(answer.body.decode().strip())
        return
    found = answer.document()["channels"]
    rows = [["CHANNEL", "NAME", "DESTINATION"]]
    rows += [[each["id"], each["name"], _destination(each)] for each in found]
    click.echo(table(rows) if found else "There are no channels.")


@channels.command()
@click.argument("ident", metavar="ID")
@url_option
@json_option
def show(ident: str, url: str | None, *, as_json: bool) -> None:
    """Show a channel."""
    with sidecar(url) as connection:
        answer = ask(connection, "GET", _path(ident), as_json=as_json)
    _show(answer.body, as_json=as_json)


@channels.command("set")
@click.argument("ident", metavar="ID")
@click.argument("host")
@click.argument("port", type=click.IntRange(1, 65_535))
@click.option("--path", default="/", show_default=True, help="What is called there.")
@click.option("--name", help="For people.  [default: the id]")
@click.option("--tls", is_flag=True, help="Call it by https.")
@url_option
@json_option
def set_channel(
    ident: str,
    host: str,
    port: int,
    path: str,
    name: str | None,
    url: str | None,
    *,
    tls: bool,
    as_json: bool,
) -> None:
    """Create a channel, or put it in the place of what was there."""
    document = {"destination_host": host, "destination_port": port, "path": path, "tls": tls}
    if name is not None:
        document["name"] = name
    with sidecar(url) as connection:
        answer = ask(connection, "PUT", _path(ident), document, as_json=as_json)
    _show(answer.body, as_json=as_json)


@channels.command()
@click.argument("ident", metavar="ID")
@url_option
@json_option
def delete(ident: str, url: str | None, *, as_json: bool) -> None:
    """Delete a channel."""
    with sidecar(url) as connection:
        ask(connection, "DELETE", _path(ident), as_json=as_json)
    click.echo(json.dumps({"deleted": ident}) if as_json else f"Deleted {ident}.")


def _path(ident: str) -> str:
    return f"/channels/{quote(ident, safe='')}"


def _destination(channel: dict[str, Any]) -> str:
    host = channel["destination_host"]
    shown = f"[{host}]" if ":" in host else host
    scheme = "https" if channel["tls"] else "http"
    return f"{scheme}://{shown}:{channel['destination_port']}{channel['path']}"


def _show(body: bytes, *, as_json: bool) -> None:
    if as_json:
        click.echo(body.decode().strip())
        return
    channel = json.loads(body)
    for label, text in (
        ("channel", channel["id"]),
        ("name", channel["name"]),
        ("destination", _destination(channel)),
    ):
        click.echo(f"{label:<14}{text}")
