"""`sidegate rejects`: messages that were refused after their app had been told 202."""

from __future__ import annotations

import json
import time
from typing import Any
from urllib.parse import urlencode

import click

from sidegate.client import Connection, Unreachable
from sidegate.commands.options import ask, json_option, refuse, sidecar, unreachable, url_option
from sidegate.table import table

UNITS = (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1))


@click.group()
def rejects() -> None:
    """List, retry and drop messages that were refused after a 202.

    A publish that the sidecar answered with 202 may be denied later. The batch is then kept in the
    sidecar's reject file, with the reason, until it is retried or dropped.
    """


def _which(command: Any) -> Any:
    """One, several, or all of them."""
    for option in (
        click.argument("numbers", nargs=-1, type=click.IntRange(min=0), metavar="[ID]..."),
        click.option("--all", "everything", is_flag=True, help="All of them."),
        click.option("--topic", help="All of this topic."),
    ):
        command = option(command)
    return command


@rejects.command("list")
@click.option("--topic", help="Only those of this topic.")
@url_option
@json_option
def list_rejects(topic: str | None, url: str | None, *, as_json: bool) -> None:
    """List them, oldest first, with the reason."""
    with sidecar(url) as connection:
        answer = ask(connection, "GET", _path("/rejects", topic=topic), as_json=as_json)
    if as_json:
        click.echo(answer.body.decode().strip())
        return
    found = answer.document()["rejects"]
    if not found:
        click.echo("There are none.")
        return
    now_s = time.time()
    rows = [["ID", "TOPIC", "PARTITION", "MESSAGES", "BYTES", "AGE", "CODE", "REASON"]]
    rows += [
        [
            str(one["id"]),
            one["topic"],
            str(one["partition"]),
            str(one["messages"]),
            str(one["bytes"]),
            age(now_s - one["at_us"] / 1e6),
            one["code"],
            one["detail"] if one["decision_id"] is None else _with_decision(one),
        ]
        for one in found
    ]
    click.echo(table(rows))


@rejects.command()
@_which
@click.option(
    "--force",
    is_flag=True,
    help="Publish also what may be in the log already and cannot be looked up.",
)
@url_option
@json_option
def retry(
    numbers: tuple[int, ...],
    topic: str | None,
    url: str | None,
    *,
    everything: bool,
    force: bool,
    as_json: bool,
) -> None:
    """Publish them again, in their order; what is refused again stays.

    Name their ids, --topic, or --all.
    """
    _check_choice(numbers, topic, everything=everything)
    query = {"force": "true"} if force else {}
    with sidecar(url) as connection:
        if numbers:
            done = _retry_each(connection, numbers, query, as_json=as_json)
        else:
            path = _path("/rejects/retry", topic=topic, **query)
            done = ask(connection, "POST", path, as_json=as_json).document()
    if as_json:
        click.echo(json.dumps(done))
    else:
        click.echo(f"{_counted(done['retried'], 'message')} published.")
        for one in done["refused"]:
            click.echo(f"reject {one['id']} stays ({one['code']}): {one['detail']}", err=True)
    if done["refused"]:
        raise click.exceptions.Exit(1)


@rejects.command()
@_which
@click.option("--yes", is_flag=True, help="Do not ask.")
@url_option
@json_option
def drop(
    numbers: tuple[int, ...],
    topic: str | None,
    url: str | None,
    *,
    everything: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Forget them for good: these messages are lost.

    Name their ids, --topic, or --all.
    """
    _check_choice(numbers, topic, everything=everything)
    with sidecar(url) as connection:
        listed = ask(connection, "GET", _path("/rejects", topic=topic), as_json=as_json)
        found = {one["id"]: one for one in listed.document()["rejects"]}
        unknown = [str(number) for number in numbers if number not in found]
        if unknown:
            raise click.ClickException(
                f"there is no reject {', '.join(unknown)}; `sidegate rejects list` shows them. "
                "None was dropped."
            )
        # By their ids, so that none goes that came after the question.
        meant = list(dict.fromkeys(numbers)) or list(found)
        messages = sum(found[number]["messages"] for number in meant)
        if meant and not yes:
            click.confirm(f"Forget {_counted(messages, 'message')} for good?", abort=True, err=True)
        for number in meant:
            ask(connection, "DELETE", f"/rejects/{number}", as_json=as_json)
    if as_json:
        click.echo(json.dumps({"dropped": len(meant), "messages": messages}))
    else:
        click.echo(f"{_counted(messages, 'message')} dropped.")


def _retry_each(
    connection: Connection, numbers: tuple[int, ...], query: dict[str, str], *, as_json: bool
) -> dict[str, Any]:
    """Each by itself, so that one that is refused stops no other; an unknown one is the end."""
    retried, refused = 0, []
    for number in dict.fromkeys(numbers):
        try:
            answer = connection.request("POST", _path(f"/rejects/{number}/retry", **query))
        except Unreachable as error:
            unreachable(error)
        document = answer.document()
        if answer.ok:
            retried += document["retried"]
        elif answer.status == 404 or not isinstance(document, dict):
            refuse(answer, as_json=as_json)
        else:
            code, detail = document.get("code"), document.get("detail")
            refused.append({"id": number, "code": code, "detail": detail})
    return {"retried": retried, "refused": refused}


def _check_choice(numbers: tuple[int, ...], topic: str | None, *, everything: bool) -> None:
    if sum((bool(numbers), topic is not None, everything)) != 1:
        raise click.UsageError("Name their ids, or --topic, or --all: one of the three.")


def _path(path: str, **query: str | None) -> str:
    given = {name: value for name, value in query.items() if value is not None}
    return f"{path}?{urlencode(given)}" if given else path


def _with_decision(one: dict[str, Any]) -> str:
    return f"{one['reason'] or one['detail']} (decision {one['decision_id']})"


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def age(seconds: float) -> str:
    """How long ago, in the greatest unit that fits, rounded down."""
    for unit, size in UNITS:
        if seconds >= size:
            return f"{int(seconds // size)}{unit}"
    return "0s"
