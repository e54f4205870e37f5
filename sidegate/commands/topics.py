"""`sidegate topics`: list and manage topics through the local sidecar."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import click

from hosting.units import parse_bytes, parse_duration
from sidegate.commands.options import ask, json_option, sidecar, url_option
from sidegate.table import table

STRATEGIES = click.Choice(["key", "round_robin", "sticky"])
STORAGES = click.Choice(["disk", "memory"])
DELIVERIES = click.Choice(["broadcast", "fcfs"])
NONE = "none"


@click.group()
def topics() -> None:
    """List, create, describe, alter and delete topics."""


class Amount(click.ParamType[int | str]):
    """A duration or size as configurations have it, or `none`, which lifts a limit."""

    def __init__(self, name: str, parse: Callable[[str], int]) -> None:
        self.name = name
        self._parse = parse

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> int | str:
        if value == NONE:
            return NONE
        try:
            return self._parse(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


def _milliseconds(text: str) -> int:
    return round(parse_duration(text) * 1000)


def _settings(command: Any) -> Any:
    for option in (
        click.option("--partitions", type=click.IntRange(min=1), help="How many."),
        click.option("--strategy", type=STRATEGIES, help="How messages find their partition."),
        click.option(
            "--retain-age",
            type=Amount("duration", _milliseconds),
            help="Such as 7d; none keeps them.",
        ),
        click.option(
            "--retain-bytes",
            type=Amount("size", parse_bytes),
            help="Such as 1GiB; none keeps them.",
        ),
        click.option("--delivery", type=DELIVERIES, help="A subscription's default."),
    ):
        command = option(command)
    return command


@topics.command("list")
@url_option
@json_option
def list_topics(url: str | None, *, as_json: bool) -> None:
    """List the topics that you may see."""
    with sidecar(url) as connection:
        answer = ask(connection, "GET", "/topics", as_json=as_json)
    if as_json:
        click.echo(answer.body.decode().strip())
        return
    found = answer.document()["topics"]
    rows = [["TOPIC", "PARTITIONS", "STRATEGY", "STORAGE", "DELIVERY", "MESSAGES"]]
    rows += [
        [
            topic["name"],
            str(topic["partitions"]),
            topic["strategy"],
            topic["storage"],
            topic["delivery"],
            str(sum(o["end_offset"] - o["start_offset"] for o in topic.get("offsets", []))),
        ]
        for topic in found
    ]
    click.echo(table(rows) if found else "There are no topics.")


@topics.command()
@click.argument("name")
@click.option(
    "--storage", type=STORAGES, help="memory: broadcast, never stored. Fixed from then on."
)
@_settings
@url_option
@json_option
def create(name: str, url: str | None, *, as_json: bool, **settings: Any) -> None:
    """Create a topic; the same again changes nothing."""
    with sidecar(url) as connection:
        document = {"name": name, **_document(settings)}
        answer = ask(connection, "POST", "/topics", document, as_json=as_json)
    _show(answer.body, as_json=as_json)


@topics.command()
@click.argument("name")
@url_option
@json_option
def describe(name: str, url: str | None, *, as_json: bool) -> None:
    """Show a topic's settings and offsets."""
    with sidecar(url) as connection:
        answer = ask(connection, "GET", _path(name), as_json=as_json)
    _show(answer.body, as_json=as_json)


@topics.command()
@click.argument("name")
@_settings
@url_option
@json_option
def alter(name: str, url: str | None, *, as_json: bool, **settings: Any) -> None:
    """Change a topic's settings; what is not named stays."""
    document = _document(settings)
    if not document:
        raise click.UsageError("Name at least one setting to change; --help lists them.")
    with sidecar(url) as connection:
        answer = ask(connection, "PATCH", _path(name), document, as_json=as_json)
    _show(answer.body, as_json=as_json)


@topics.command()
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not ask.")
@url_option
@json_option
def delete(name: str, url: str | None, *, yes: bool, as_json: bool) -> None:
    """Delete a topic and its messages."""
    if not yes:
        click.confirm(f"Delete {name} and all of its messages?", abort=True, err=True)
    with sidecar(url) as connection:
        ask(connection, "DELETE", _path(name), as_json=as_json)
    click.echo(json.dumps({"deleted": name}) if as_json else f"Deleted {name}.")


def _path(name: str) -> str:
    return f"/topics/{quote(name, safe='')}"


def _document(settings: dict[str, Any]) -> dict[str, Any]:
    """The settings that were given, in the wire's form."""
    document = {
        name: settings[name]
        for name in ("partitions", "strategy", "storage", "delivery")
        if settings.get(name) is not None
    }
    retention = {
        member: None if settings[option] == NONE else settings[option]
        for member, option in (("age_ms", "retain_age"), ("bytes", "retain_bytes"))
        if settings[option] is not None
    }
    return {**document, "retention": retention} if retention else document


def _show(body: bytes, *, as_json: bool) -> None:
    if as_json:
        click.echo(body.decode().strip())
        return
    topic = json.loads(body)
    retention = topic.get("retention") or {}
    rows = [
        ("topic", topic["name"]),
        ("partitions", topic["partitions"]),
        ("strategy", topic["strategy"]),
        ("storage", topic["storage"]),
        ("delivery", topic["delivery"]),
        ("retained for", _age(retention.get("age_ms"))),
        ("retained bytes", "unlimited" if retention.get("bytes") is None else retention["bytes"]),
    ]
    for partition in topic.get("offsets", []):
        held = f"offsets {partition['start_offset']} up to {partition['end_offset']}"
        rows.append((f"partition {partition['partition']}", held))
    for name, value in rows:
        click.echo(f"{name:<16}{value}")


def _age(milliseconds: int | None) -> str:
    """The age in the greatest unit that says it exactly, as --retain-age takes it."""
    if milliseconds is None:
        return "ever"
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000)):
        if milliseconds % size == 0:
            return f"{milliseconds // size}{unit}"
    return f"{milliseconds}ms"
