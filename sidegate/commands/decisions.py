"""`sidegate decisions`: what a gatekeeper decided lately, and one decision by its id."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import click

from sidegate.commands.operator_options import admin_options, ask_admin
from sidegate.commands.options import json_option
from sidegate.table import table

LIMIT_MAX = 2000
"""What a gatekeeper keeps at hand; the topic _audit has all of them."""


@click.command()
@click.argument("ident", metavar="[ID]", required=False)
@click.option("--denied", is_flag=True, help="Only what was refused.")
@click.option("--principal", help="Only of this principal.")
@click.option("--topic", help="Only on this topic.")
@click.option("--action", help="Only this action, such as publish or authenticate.")
@click.option(
    "--limit", type=click.IntRange(1, LIMIT_MAX), default=20, show_default=True, help="How many."
)
@admin_options
@json_option
def decisions(
    ident: str | None,
    principal: str | None,
    topic: str | None,
    action: str | None,
    limit: int,
    admin: str | None,
    secret: Path | None,
    *,
    denied: bool,
    as_json: bool,
) -> None:
    """Show what a gatekeeper decided lately, newest first.

    With ID, all that is known of that decision: callers who are refused are told its id. An
    allowed publish is not among them; its message carries who, how proven and which rule.
    """
    if ident is not None:
        path = f"/decisions/{quote(ident, safe='')}"
        record = ask_admin(admin, secret, "GET", path, as_json=as_json).document()
        click.echo(json.dumps(record) if as_json else _whole(record))
        return
    wanted = {"principal": principal, "topic": topic, "action": action, "limit": limit}
    query = {name: value for name, value in wanted.items() if value is not None}
    if denied:
        query["allowed"] = "false"
    path = f"/decisions?{urlencode(query)}"
    answer = ask_admin(admin, secret, "GET", path, as_json=as_json)
    if as_json:
        click.echo(answer.body.decode().strip())
        return
    listed = answer.document()["decisions"]
    rows = [["TIME", "", "PRINCIPAL", "ACTION", "TOPIC", "WHY", "ID"]]
    rows += [_row(record) for record in listed]
    click.echo(table(rows) if listed else "There are none that this gatekeeper remembers.")


def _row(record: dict[str, Any]) -> list[str]:
    what = record.get("topic") or record.get("claimed_spiffe_id") or ""
    if "revocation" in record:
        what = f"{record['revocation'].get('kind')} {record['revocation'].get('value')}"
    why = record.get("reason") or ""
    if record["allowed"] or why == "denied_by_rule":
        why = record.get("rule") or why
    return [
        _time(record["at_us"]),
        "allowed" if record["allowed"] else "denied",
        record["principal"] or "(not proven)",
        record["action"],
        what,
        why,
        record["decision_id"],
    ]


def _whole(record: dict[str, Any]) -> str:
    shown = {**record, "at_us": _time(record["at_us"])}
    return "\n".join(f"{name:<20}{value}" for name, value in shown.items())


def _time(at_us: int) -> str:
    at = datetime.fromtimestamp(at_us / 1_000_000, UTC)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
