"""`sidegate subscriptions`: list and manage durable subscriptions through the local sidecar."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

import click

from sidegate.commands.options import ask, json_option, sidecar, url_option
from sidegate.table import table

F = TypeVar("F", bound=Callable[..., Any])
MODES = click.Choice(["ordered", "fcfs", "fire_and_forget"])
METHODS = click.Choice(["POST", "PUT", "PATCH"])
BODIES = click.Choice(["envelope", "raw", "cloudevent"])


@click.group()
def subscriptions() -> None:
    """List, create, move, pause, redrive and delete subscriptions."""


def owner_option(command: F) -> F:
    """`--owner`: another principal's subscriptions, where the policy shares them."""
    return click.option("--owner", help="Whose they are.  [default: this sidecar's principal]")(
        command
    )


@subscriptions.command("list")
@owner_option
@url_option
@json_option
def list_subscriptions(owner: str | None, url: str | None, *, as_json: bool) -> None:
    """List subscriptions."""
    with sidecar(url) as connection:
        answer = ask(connection, "GET", path_of(None, owner=owner), as_json=as_json)
    if as_json:
        click.echo(answer.body.decode().strip())
        return
    found = answer.document()["subscriptions"]
    rows = [["SUBSCRIPTION", "TOPIC", "MODE", "PAUSED", "PUSHED TO"]]
    rows += [
        [
            each["name"],
            each["topic"],
            each["mode"],
            "yes" if each["paused"] else "no",
            destination(each["push"]),
        ]
        for each in found
    ]
    click.echo(table(rows) if found else "There are no subscriptions.")


@subscriptions.command()
@click.argument("name")
@owner_option
@url_option
@json_option
def show(name: str, owner: str | None, url: str | None, *, as_json: bool) -> None:
    """Show how a subscription is, and why it is stuck."""
    with sidecar(url) as connection:
        answer = ask(connection, "GET", path_of(name, owner=owner), as_json=as_json)
    if as_json:
        click.echo(answer.body.decode().strip())
        return
    click.echo("\n".join(f"{label:<14}{text}" for label, text in facts(answer.document())))


@subscriptions.command()
@click.argument("name")
@click.argument("topic")
@click.option("--from", "start", help="earliest, latest, offset:N or time:…  [default: latest]")
@click.option("--mode", type=MODES, help="Default: what the topic's delivery says.")
@click.option("--filter", "expression", help="An expression in CEL, such as 'message.total > 100'.")
@click.option("--push", "target", metavar="URL", help="Send each message there.")
@click.option("--channel", help="Send each message to this channel.")
@click.option("--method", type=METHODS, help="Default: POST.")
@click.option("--body", type=BODIES, help="What is sent.  [default: envelope]")
@click.option("--concurrency", type=click.IntRange(1, 256), help="Requests at one time.")
@click.option("--timeout-ms", type=click.IntRange(10), help="For each request.")
@click.option("--secret-file", "secrets", multiple=True, help="Signs deliveries; at most two.")
@click.option("--max-attempts", type=click.IntRange(1, 100), help="Before it is a dead letter.")
@click.option("--dead-letter", metavar="TOPIC", help="Default: the topic's name and .dead.")
@url_option
@json_option
def create(name: str, topic: str, url: str | None, *, as_json: bool, **given: Any) -> None:
    """Create a subscription; the same again changes nothing."""
    document = {
        "name": name,
        "topic": topic,
        "from": given["start"],
        "mode": given["mode"],
        "filter": given["expression"],
        "push": _push(given),
        "retry": {"max_attempts": given["max_attempts"]} if given["max_attempts"] else None,
        "dead_letter": given["dead_letter"],
    }
    sent = {member: value for member, value in document.items() if value is not None}
    with sidecar(url) as connection:
        answer = ask(connection, "POST", path_of(None), sent, as_json=as_json)
    if as_json:
        click.echo(answer.body.decode().strip())
    else:
        new = "Created" if answer.status == 201 else "There is already just this"
        pushed = destination(answer.document()["push"])
        click.echo(f"{new} {name} on {topic}" + (f", pushed to {pushed}." if pushed else "."))


@subscriptions.command()
@click.argument("name")
@owner_option
@url_option
@json_option
def pause(name: str, owner: str | None, url: str | None, *, as_json: bool) -> None:
    """Deliver nothing until it is resumed."""
    _act(name, "pause", {}, owner, url, f"Paused {name}.", as_json=as_json)


@subscriptions.command()
@click.argument("name")
@owner_option
@url_option
@json_option
def resume(name: str, owner: str | None, url: str | None, *, as_json: bool) -> None:
    """Go on delivering."""
    _act(name, "resume", {}, owner, url, f"Resumed {name}.", as_json=as_json)


@subscriptions.command()
@click.argument("name")
@click.argument("to")
@click.option("--partition", type=click.IntRange(min=0), help="With offset:N.  [default: 0]")
@owner_option
@url_option
@json_option
def seek(
    name: str, to: str, partition: int | None, owner: str | None, url: str | None, *, as_json: bool
) -> None:
    """Go on at TO: earliest, latest, offset:N or time:2026-01-31T12:00:00Z."""
    document = {"to": to} if partition is None else {"to": to, "partition": partition}
    _act(name, "seek", document, owner, url, f"{name} goes on at {to}.", as_json=as_json)


@subscriptions.command()
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not ask.")
@owner_option
@url_option
@json_option
def delete(name: str, owner: str | None, url: str | None, *, yes: bool, as_json: bool) -> None:
    """Delete a subscription and its place."""
    if not yes:
        click.confirm(f"Delete {name} and its place?", abort=True, err=True)
    with sidecar(url) as connection:
        ask(connection, "DELETE", path_of(name, owner=owner), as_json=as_json)
    click.echo(json.dumps({"deleted": name}) if as_json else f"Deleted {name}.")


@subscriptions.command()
@click.argument("name")
@click.option("--all", "everything", is_flag=True, help="Also those that were put back before.")
@owner_option
@url_option
@json_option
def redrive(
    name: str, owner: str | None, url: str | None, *, everything: bool, as_json: bool
) -> None:
    """Deliver its dead letters again, to it alone."""
    document = {"from": "earliest" if everything else "new"}
    with sidecar(url) as connection:
        path = path_of(name, "redrive", owner=owner)
        answer = ask(connection, "POST", path, document, as_json=as_json)
    if as_json:
        click.echo(answer.body.decode().strip())
        return
    found = answer.document()
    if found["subscription"] is None:
        click.echo(f"There are no dead letters of {name} in {found['topic']} to put back.")
    else:
        click.echo(
            f"Up to {found['messages_max']} letters of {found['topic']} go out again. "
            f"How far it is: sidegate subscriptions show {found['subscription']}"
        )


def path_of(name: str | None, verb: str | None = None, *, owner: str | None = None) -> str:
    """The sidecar's path for a subscription, or for all of them."""
    path = "/subscriptions" if name is None else f"/subscriptions/{quote(name, safe='')}"
    path = path if verb is None else f"{path}/{verb}"
    return path if owner is None else f"{path}?{urlencode({'owner': owner})}"


def destination(push: dict[str, Any] | None) -> str:
    """Where a push goes, in a few words."""
    if not push:
        return ""
    method = push.get("method", "POST")
    return f"{method} {push['url']}" if push.get("url") else f"{method} channel {push['channel']}"


def facts(found: dict[str, Any]) -> list[tuple[str, str]]:
    """A subscription's state as labels and texts, what matters most first."""
    rows = [
        ("subscription", f"{found['name']} of {found['owner']}"),
        ("topic", found["topic"]),
        ("mode", found["mode"]),
        ("state", found["state"]),
        ("lag", f"{found['lag']} messages, {found['in_flight']} in flight"),
    ]
    for member in found["members"]:
        held = ", ".join(map(str, member["partitions"])) or "none"
        rows.append(("member", f"{member['member']}, partitions {held}"))
    if found.get("push"):
        rows.append(("pushed to", destination(found["push"])))
        letters = found.get("dead_letter")
        rows.append(("dead letters", letters["topic"] if letters else "dropped"))
    rows += _delivery(found.get("delivery"))
    for cursor in found["cursors"]:
        rows.append(
            (
                f"partition {cursor['partition']}",
                f"at {cursor['low']} of {cursor['end_offset']}, lag {cursor['lag']}",
            )
        )
    if found["redelivered"] or found["expired"]:
        text = f"{found['redelivered']} messages; {found['expired']} expired unseen"
        rows.append(("redelivered", text))
    return [(label, str(text)) for label, text in rows]


def _delivery(delivery: dict[str, Any] | None) -> list[tuple[str, str]]:
    if delivery is None:
        return []
    rows = [("delivery", delivery["state"])]
    if delivery["unreachable_since"]:
        rows[0] = ("delivery", f"{delivery['state']} since {delivery['unreachable_since']}")
    if delivery["last_error"]:
        when = f" at {delivery['last_error_at']}" if delivery["last_error_at"] else ""
        rows.append(("last error", delivery["last_error"] + when))
    if delivery["next_try"]:
        rows.append(("next try", delivery["next_try"]))
    counts = (
        f"{delivery['delivered']}, {delivery['failed']} tries failed, "
        f"{delivery['dead_lettered']} dead letters, {delivery['dropped']} dropped"
    )
    rows.append(("delivered", counts))
    return rows


def _push(given: dict[str, Any]) -> dict[str, Any] | None:
    secrets = list(given["secrets"])
    settings = {
        "url": given["target"],
        "channel": given["channel"],
        "method": given["method"],
        "body": given["body"],
        "concurrency": given["concurrency"],
        "timeout_ms": given["timeout_ms"],
        "secret_file": secrets or None,
    }
    push = {name: value for name, value in settings.items() if value is not None}
    if push and "url" not in push and "channel" not in push:
        raise click.UsageError("Where shall it be sent? Give --push URL or --channel ID.")
    return push or None


def _act(
    name: str,
    verb: str,
    document: dict[str, Any],
    owner: str | None,
    url: str | None,
    done: str,
    *,
    as_json: bool,
) -> None:
    with sidecar(url) as connection:
        path = path_of(name, verb, owner=owner)
        answer = ask(connection, "POST", path, document, as_json=as_json)
    click.echo(answer.body.decode().strip() if as_json else done)
