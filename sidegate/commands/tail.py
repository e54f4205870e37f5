"""`sidegate tail`: a topic's messages as they come, coloured, over restarts of the sidecar."""

from __future__ import annotations

import json
import re
import time
from threading import Timer
from typing import Any
from urllib.parse import quote, urlencode

import click

from sidegate.client import Refused, Unreachable
from sidegate.commands.live import ends_with_reader, plain, silence
from sidegate.commands.options import json_option, refuse, sidecar, unreachable, url_option

AGAIN_S = 1.0
"""Before a lost stream is opened again: about as long as a sidecar takes to restart."""
_TOKENS = re.compile(
    r'(?P<key>"(?:\\.|[^"\\])*")(?=\s*:)|(?P<text>"(?:\\.|[^"\\])*")'
    r"|(?P<number>-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)|(?P<word>true|false|null)"
)
_COLOURS = {"key": "blue", "text": "green", "number": "yellow", "word": "magenta"}


@click.command()
@click.argument("topic")
@click.option("--filter", "expression", help="An expression in CEL, such as 'message.total > 100'.")
@click.option("--from", "start", help="earliest, latest, offset:N or time:…  [default: latest]")
@click.option("--partition", type=click.IntRange(min=0), help="Only this one.")
@click.option("--count", type=click.IntRange(min=1), help="Stop after this many messages.")
@click.option("--headers", "show_headers", is_flag=True, help="Show the messages' headers too.")
@url_option
@json_option
def tail(
    topic: str,
    expression: str | None,
    start: str | None,
    partition: int | None,
    count: int | None,
    url: str | None,
    *,
    show_headers: bool,
    as_json: bool,
) -> None:
    """Follow a topic live, with a filter if you like.

    Ctrl-C ends it. When the sidecar restarts, it goes on behind the last message.
    """
    given = {"from": start, "filter": expression, "partition": partition}
    query = urlencode({name: value for name, value in given.items() if value is not None})
    path = f"/subscribe/{quote(topic, safe='')}" + (f"?{query}" if query else "")
    word = silence(topic, start, "tail")
    word.start()
    try:
        with ends_with_reader():
            _follow(path, count, word, url, show_headers=show_headers, as_json=as_json)
    except KeyboardInterrupt:
        return
    finally:
        word.cancel()


def _follow(
    path: str,
    count: int | None,
    word: Timer,
    url: str | None,
    *,
    show_headers: bool,
    as_json: bool,
) -> None:
    left, position, opened = count, None, False
    while True:
        headers: dict[str, str] = {} if position is None else {"Last-Event-ID": position}
        try:
            with sidecar(url) as connection:
                for event in connection.events(path, headers):
                    opened = True
                    position = event.id or position
                    if event.name not in {None, "message"}:
                        continue
                    word.cancel()
                    click.echo(event.data if as_json else line(event.data, headers=show_headers))
                    left = None if left is None else left - 1
                    if left == 0:
                        return
        except Refused as refused:
            refuse(refused.answer, as_json=as_json)
        except Unreachable as error:
            if not opened:
                unreachable(error)
        click.echo("The stream is lost; opening it again.", err=True)
        time.sleep(AGAIN_S)


def line(data: str, *, headers: bool = False) -> str:
    """One message as one coloured line: when, where, its key, who sent it, what it says."""
    envelope: dict[str, Any] = json.loads(data)
    when = click.style(str(envelope["timestamp"])[11:23], dim=True)
    place = click.style(f"{envelope['topic']}/{envelope['partition']}", fg="cyan")
    offset = click.style(str(envelope["offset"]), fg="cyan", bold=True)
    parts = [when, place, offset]
    if envelope.get("key") is not None:
        parts.append(click.style(plain(str(envelope["key"])), fg="magenta"))
    if envelope.get("principal"):
        parts.append(click.style(plain(str(envelope["principal"])), dim=True))
    if headers and envelope.get("headers"):
        parts.append(coloured(envelope["headers"]))
    if "message" in envelope:
        parts.append(coloured(envelope["message"]))
    else:
        parts.append(plain(f"{envelope['content_type']} (base64) {envelope['data_base64']}"))
    return " ".join(parts)


def coloured(value: object) -> str:
    """A JSON value in colours, so that names and values can be told apart."""
    text = plain(json.dumps(value, ensure_ascii=False))

    def style(found: re.Match[str]) -> str:
        return click.style(found[0], fg=_COLOURS[str(found.lastgroup)])

    return _TOKENS.sub(style, text)
