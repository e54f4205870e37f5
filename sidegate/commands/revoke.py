"""`sidegate revoke`: take back a token, a client or a certificate, on every gatekeeper at once."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from hosting.units import parse_duration
from sidegate.commands.operator_options import admin_options, ask_admin
from sidegate.commands.options import json_option
from sidegate.table import table

# No issuer's tokens live longer (the policy refuses a greater max_ttl), nor may clocks differ more.
TOKEN_S = 24 * 3600.0 + 300.0
MICROSECONDS = 1_000_000


@click.group()
def revoke() -> None:
    """Take back a token, a client or a certificate on every gatekeeper."""


class Until(click.ParamType[int]):
    """A duration from now, or a time; as microseconds since 1970."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            return round((time.time() + parse_duration(value)) * MICROSECONDS)
        except ValueError:
            pass
        try:
            at = datetime.fromisoformat(value)
        except ValueError:
            self.fail(f"{value!r} is neither a duration, such as 2h or 7d, nor a time.", param, ctx)
        if at.tzinfo is None:
            self.fail(f"{value!r} has no time zone; write 2026-01-31T12:00:00Z.", param, ctx)
        return round(at.timestamp() * MICROSECONDS)


def _command(kind: str, name: str, text: str, issuer: str, value: str) -> None:
    @revoke.command(name, help=text)
    @click.argument("value", metavar=value)
    @click.option("--reason", required=True, help="Why; callers and the decision log are told.")
    @click.option(
        "--until",
        type=Until(),
        help="A duration such as 7d, or a time such as 2026-01-31T12:00:00Z.  [default: "
        + ("a day, by when every token has ended]" if kind == "token_id" else "for ever]"),
    )
    @click.option("--issuer", help=issuer)
    @click.option("--lift", is_flag=True, help="End an earlier revocation instead.")
    @admin_options
    @json_option
    def command(
        value: str,
        reason: str,
        until: int | None,
        issuer: str | None,
        admin: str | None,
        secret: Path | None,
        *,
        lift: bool,
        as_json: bool,
    ) -> None:
        if lift and until is not None:
            raise click.UsageError("--lift ends it now; leave --until out.")
        now_us = round(time.time() * MICROSECONDS)
        if lift:
            # The last record about a thing counts; one that has ended lifts those before it.
            until = now_us
        elif until is None and kind == "token_id":
            until = now_us + round(TOKEN_S * MICROSECONDS)
        elif until is not None and until <= now_us:
            raise click.UsageError("--until is in the past; --lift ends an earlier revocation.")
        record = {
            "kind": kind,
            "value": _serial(value) if kind == "certificate" else value,
            "issuer": issuer,
            "until_us": until,
            "reason": reason,
        }
        answer = ask_admin(admin, secret, "POST", "/revocations", record, as_json=as_json)
        if as_json:
            click.echo(json.dumps({**record, **answer.document()}))
            return
        if lift:
            click.echo(f"The {name} {record['value']} is no longer revoked.")
            return
        end = "for ever" if until is None else f"until {_time(until)}"
        click.echo(f"Revoked the {name} {record['value']} {end}, on every gatekeeper.")


_command(
    "token_id",
    "token",
    "Revoke one token, by its id (jti), which `sidegate whoami` and the decision log show.",
    "Only this issuer's, by its name in the policy or its URL.",
    "ID",
)
_command(
    "client",
    "client",
    "Revoke an OAuth client: every token that it has and will get.",
    "Only this issuer's, by its name in the policy or its URL.",
    "CLIENT_ID",
)
_command(
    "certificate",
    "certificate",
    "Revoke a certificate, by its file (PEM) or its serial number in hexadecimal.",
    "Only in this trust domain.",
    "FILE|SERIAL",
)


@revoke.command("list")
@admin_options
@json_option
def list_revocations(admin: str | None, secret: Path | None, *, as_json: bool) -> None:
    """List what is revoked now."""
    answer = ask_admin(admin, secret, "GET", "/revocations", as_json=as_json)
    if as_json:
        click.echo(answer.body.decode().strip())
        return
    listed = answer.document()["revocations"]
    rows = [["KIND", "VALUE", "ISSUER", "UNTIL", "REASON"]]
    rows += [
        [
            entry["kind"].removesuffix("_id"),
            entry["value"],
            entry.get("issuer") or "any",
            _time(entry["until_us"]) if entry.get("until_us") is not None else "for ever",
            entry.get("reason") or "",
        ]
        for entry in listed
    ]
    click.echo(table(rows) if listed else "Nothing is revoked.")


def _serial(value: str) -> str:
    """The serial number of a certificate file, or what was given."""
    file = Path(value)
    if not file.is_file():
        return value
    from cryptography import x509

    try:
        return f"{x509.load_pem_x509_certificate(file.read_bytes()).serial_number:x}"
    except ValueError as error:
        raise click.UsageError(f"{file} holds no certificate in PEM.") from error


def _time(at_us: int) -> str:
    at = datetime.fromtimestamp(at_us / MICROSECONDS, UTC)
    return at.isoformat(timespec="seconds").replace("+00:00", "Z")
