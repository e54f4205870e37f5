"""`sidegate publish`: send messages to the local sidecar."""

from __future__ import annotations

import json
import re
import sys
from typing import Any
from urllib.parse import urlencode

import click

from sidegate.client import Connection
from sidegate.commands.options import ask, json_option, sidecar, url_option

# What nobody writes but to begin an object, or an array of strings, objects or arrays.
LIKE_JSON = re.compile(r"\s*(\{|\[\s*[\"{\[])")


@click.command()
@click.argument("topic")
@click.argument("message")
@click.option("--key", help="Messages with the same key keep their order.")
@click.option("--header", "headers", multiple=True, metavar="NAME=VALUE", help="May be repeated.")
@click.option("--id", "ident", help="An id of your own; a repeat of it is published once.")
@click.option("--text", is_flag=True, help="Send the message as text, even if it looks like JSON.")
@click.option(
    "--ack",
    type=click.Choice(["auto", "core", "sidecar", "none"]),
    help="What to wait for.  [default: auto]",
)
@click.option(
    "--receipt",
    is_flag=True,
    help="Print the proof that the message is in the log, for `sidegate log check-proof`.",
)
@url_option
@json_option
def publish(
    topic: str,
    message: str,
    key: str | None,
    headers: tuple[str, ...],
    ident: str | None,
    ack: str | None,
    url: str | None,
    *,
    text: bool,
    receipt: bool,
    as_json: bool,
) -> None:
    """Publish messages to a topic.

    MESSAGE is JSON, or text if it does not look like JSON. With - each line of standard input is
    one message, until Ctrl-D or Ctrl-C.
    """
    envelope: dict[str, Any] = {"topic": topic}
    if key is not None:
        envelope["key"] = key
    if headers:
        envelope["headers"] = dict(_header(header) for header in headers)
    query = {**({"ack": ack} if ack else {}), **({"receipt": "1"} if receipt else {})}
    path = f"/publish?{urlencode(query)}" if query else "/publish"
    with sidecar(url) as connection:
        if message == "-":
            if ident is not None:
                raise click.UsageError("--id names one message; with - there may be many.")
            try:
                _lines(connection, path, envelope, text=text, as_json=as_json)
            except KeyboardInterrupt:
                return
            return
        if ident is not None:
            envelope["id"] = ident
        try:
            envelope["message"] = value(message, text=text)
        except ValueError as error:
            raise click.UsageError(f"the message {error}") from error
        _show(ask(connection, "POST", path, envelope, as_json=as_json).body, as_json=as_json)


def _lines(
    connection: Connection, path: str, envelope: dict[str, Any], *, text: bool, as_json: bool
) -> None:
    if sys.stdin.isatty():
        click.echo(f"Each line is a message to {envelope['topic']}. Ctrl-D ends.", err=True)
    for number, line in enumerate(sys.stdin, start=1):
        message = line.removesuffix("\n").removesuffix("\r")
        if not message:
            continue
        try:
            document = {**envelope, "message": value(message, text=text)}
        except ValueError as error:
            raise click.ClickException(f"line {number} {error}") from error
        _show(ask(connection, "POST", path, document, as_json=as_json).body, as_json=as_json)


def value(message: str, *, text: bool) -> object:
    """What to publish. ValueError for what was meant to be JSON and is none: it would go as text,
    and every reader would stumble over it."""
    if text:
        return message
    try:
        parsed: object = json.loads(message)
    except ValueError as error:
        if LIKE_JSON.match(message):
            raise ValueError(
                f"begins like JSON and is none: {error}. Mend it, or send it as text with --text."
            ) from error
        return message
    return parsed


def _header(header: str) -> tuple[str, str]:
    name, equals, value = header.partition("=")
    if not name or not equals:
        raise click.UsageError(f"--header takes NAME=VALUE, not {header!r}.")
    return name, value


def _show(body: bytes, *, as_json: bool) -> None:
    if as_json:
        click.echo(body.decode().strip())
        return
    answer = json.loads(body)
    if "receipt" in answer:
        _show_receipt(answer)
        return
    where = f"{answer['topic']}"
    if answer.get("offset") is not None:
        where = f"{where} partition {answer['partition']} offset {answer['offset']}"
    click.echo(f"{where} {answer['durability']}")


def _show_receipt(answer: dict[str, Any]) -> None:
    """The proof alone on standard output, so that it can go into a file."""
    if answer["receipt"] is None:
        place = f" Ask for it at {answer['receipt_url']}." if "receipt_url" in answer else ""
        raise click.ClickException(f"published, and without a receipt: {answer['reason']}.{place}")
    click.echo(json.dumps(answer["receipt"], indent=2))
