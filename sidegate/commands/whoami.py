"""`sidegate whoami`: who a sidecar is to the gatekeeper, and what it may do."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import click

from sidegate.commands.options import ask, json_option, sidecar, url_option


@click.command()
@url_option
@json_option
def whoami(url: str | None, *, as_json: bool) -> None:
    """Show who a sidecar is to the gatekeeper, and what it may do."""
    with sidecar(url) as connection:
        answer = ask(connection, "GET", "/whoami", as_json=as_json)
    if as_json:
        click.echo(answer.body.decode().strip())
        return
    click.echo(render(answer.document(), datetime.now(UTC)))


def render(told: dict[str, Any], now: datetime) -> str:
    """The answer as lines."""
    facts = {
        "principal": click.style(told["principal"], bold=True),
        "SPIFFE id": told["spiffe_id"],
        "issuer": told["issuer"],
        "client": told["client_id"],
        "scopes": " ".join(told["scopes"]) or "none",
        "token": f"{told['token_id']}, {_life(told['expires_at'], now)}",
        "gatekeeper": told["gatekeeper"],
        "policy": told["policy_hash"],
    }
    lines = [f"{name:<12}{fact}" for name, fact in facts.items()]
    lines += _listed("may", _allowed(told["allowed"]) or ["nothing: no rule names it"])
    lines += _listed(
        "never",
        [
            f"{', '.join(rule['actions'])} on {rule['on']} ({rule['rule']}{_reason(rule)})"
            for rule in told["denied"]
        ],
    )
    if not told["complete"]:
        lines.append("and more: there are too many rules to list")
    return "\n".join(lines)


def _allowed(rules: list[dict[str, Any]]) -> list[str]:
    """One line for each pattern, in the policy's order of precedence."""
    by_pattern: dict[str, list[str]] = {}
    for rule in rules:
        bounded = rule["action"] == "replay" and rule["max_age_s"] is not None
        action = f"replay ({rule['max_age_s']:.0f} s back)" if bounded else rule["action"]
        by_pattern.setdefault(rule["on"], []).append(action)
    return [f"{', '.join(actions)} on {pattern}" for pattern, actions in by_pattern.items()]


def _listed(name: str, entries: list[str]) -> list[str]:
    return [f"{name if not place else '':<12}{entry}" for place, entry in enumerate(entries)]


def _reason(rule: dict[str, Any]) -> str:
    return f": {rule['reason']}" if rule["reason"] else ""


def _life(expires_at: float, now: datetime) -> str:
    end = datetime.fromtimestamp(expires_at, UTC)
    left_s = int((end - now).total_seconds())
    at = end.isoformat(timespec="seconds").replace("+00:00", "Z")
    if left_s <= 0:
        return f"expired at {at}"
    left = f"{left_s // 60} min {left_s % 60} s" if left_s >= 60 else f"{left_s} s"
    return f"for another {left}, until {at}"
