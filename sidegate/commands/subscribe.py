"""`sidegate subscribe`: print a topic's messages as they come."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote, urlencode

import click

from sidegate.client import Refused, Unreachable
from sidegate.commands.live import ends_with_reader, plain, silence
from sidegate.commands.options import json_option, refuse, sidecar, unreachable, url_option


@click.command()
@click.argument("topic")
@click.option(
    "--from",
    "start",
    metavar="START",
    help="earliest, latest, an offset or a time.  [default: latest]",
)
@click.option("--count", type=click.IntRange(min=1), help="Stop after this many messages.")
@url_option
@json_option
def subscribe(
    topic: str, start: str | None, count: int | None, url: str | None, *, as_json: bool
) -> None:
    """Print a topic's messages.

    Ctrl-C ends it.
    """
    path = f"/subscribe/{quote(topic, safe='')}"
    if start is not None:
        path = f"{path}?{urlencode({'from': start})}"
    word = silence(topic, start, "subscribe")
    word.start()
    left = count
    try:
        with ends_with_reader(), sidecar(url) as connection:
            for event in connection.events(path):
                if event.name not in {None, "message"}:
                    continue
                word.cancel()
                _show(event.data, as_json=as_json)
                if left is not None:
                    left -= 1
                    if left == 0:
                        return
    except Refused as refused:
        refuse(refused.answer, as_json=as_json)
    except Unreachable as error:
        unreachable(error)
    except KeyboardInterrupt:
        return
    finally:
        word.cancel()
    raise click.ClickException("the sidecar ended the stream")


def _show(data: str, *, as_json: bool) -> None:
    if as_json:
        click.echo(data)
        return
    click.echo(readable(json.loads(data)))


def readable(envelope: dict[str, Any]) -> str:
    """One message as one line: where and when, its proven sender, its key, what it says."""
    head = click.style(
        f"{envelope['topic']}/{envelope['partition']} {envelope['offset']}", fg="cyan"
    )
    when = click.style(str(envelope["timestamp"]), dim=True)
    sender = (
        f" by {plain(str(envelope['principal']))}" if envelope.get("principal") is not None else ""
    )
    key = f" key={plain(str(envelope['key']))}" if envelope.get("key") is not None else ""
    if "message" in envelope:
        value = json.dumps(envelope["message"], ensure_ascii=False)
    else:
        value = f"{envelope['content_type']} (base64) {envelope['data_base64']}"
    return f"{head} {when}{sender}{key} {plain(value)}"
