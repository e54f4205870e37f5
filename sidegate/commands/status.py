"""`sidegate status`: one screen of what runs, is connected, spooled and denied.

Asks the services' own health pages; knows their addresses from the record of `sidegate up`, or
the sidecar's alone from --url.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from sidegate.client import Connection, Unreachable
from sidegate.commands.options import (
    DEFAULT_URL,
    CouldNotRun,
    app_token,
    json_option,
    state_option,
    url_option,
)
from sidegate.development.probe import PROBE_S_MAX, Probe
from sidegate.development.running import Running
from sidegate.table import table

WATCH_S = 1.0
ALARMS = frozenset({"alarm", "silent"})
"""States of the witness that somebody has to look at."""
_DECISIONS = re.compile(
    r'^sidegate_gatekeeper_decisions_total\{[^}]*result="(\w+)"[^}]*\} (\S+)', re.MULTILINE
)


@click.command()
@state_option
@url_option
@click.option("--watch", is_flag=True, help="Show it again every second until Ctrl-C.")
@json_option
def status(folder: Path, url: str | None, *, watch: bool, as_json: bool) -> None:
    """Show what runs, is connected, spooled and denied.

    Exits 0 if all is well, 1 if something is not, 2 if nothing runs.
    """
    while True:
        seen = gather(folder, url)
        if not seen["services"] and seen["sidecar"] is None:
            raise CouldNotRun(
                f"nothing runs in {folder}, and no sidecar answers at {url or DEFAULT_URL}; "
                "start the mesh with `make up`"
            )
        if watch and not as_json:
            click.clear()
        click.echo(json.dumps(seen) if as_json else render(seen, datetime.now(UTC)))
        if not watch:
            raise click.exceptions.Exit(0 if seen["well"] else 1)
        time.sleep(WATCH_S)


def gather(folder: Path, url: str | None) -> dict[str, Any]:
    """Everything that can be learnt now, as plain values."""
    record = Running(folder / "run").record() or {}
    services = {
        name: _service(name, kept, folder) for name, kept in record.get("services", {}).items()
    }
    sidecar = _document(url or record.get("url") or DEFAULT_URL, "/status", app_token())
    witness = _witness(services.get("gatekeeper", {}).get("health"))
    well = (
        sidecar is not None
        and sidecar.get("uplink") == "connected"
        and all(service["ready"] for service in services.values())
        and (witness is None or witness.get("state") not in ALARMS)
    )
    return {
        "well": well,
        "state": str(folder),
        "pid": record.get("pid"),
        "started": record.get("started"),
        "url": url or record.get("url") or DEFAULT_URL,
        "services": services,
        "sidecar": sidecar,
        "decisions": _decisions(services.get("gatekeeper", {}).get("health")),
        "witness": witness,
    }


def _service(name: str, kept: dict[str, Any], folder: Path) -> dict[str, Any]:
    if kept.get("pid") is None:
        return {**kept, "ready": False, "reason": kept.get("state", "stopped")}
    ca = folder / "ca" / "ca.pem" if name == "issuer" else None
    verdict = Probe(kept["health"], ca).ask()
    return {**kept, "ready": verdict.ready, "reason": verdict.reason}


def _document(
    url: str, path: str, headers: Mapping[str, str] | None = None
) -> dict[str, Any] | None:
    try:
        with Connection(url, timeout_s=PROBE_S_MAX, headers=headers) as connection:
            document = connection.request("GET", path).document()
    except Unreachable:
        return None
    return document if isinstance(document, dict) else None


def _witness(health: str | None) -> dict[str, Any] | None:
    """What the gatekeeper says of the core's log, on its health page."""
    document = None if health is None else _document(health, "/readyz")
    checks = document.get("checks") if document is not None else None
    found = checks.get("witness") if isinstance(checks, dict) else None
    return found if isinstance(found, dict) else None


def _decisions(health: str | None) -> dict[str, int] | None:
    """How often the gatekeeper allowed and denied since it started, from its metrics."""
    if health is None:
        return None
    try:
        with Connection(health, timeout_s=PROBE_S_MAX) as connection:
            text = connection.request("GET", "/metrics").body.decode("utf-8", "replace")
    except Unreachable:
        return None
    counts = {"allow": 0, "deny": 0}
    for result, count in _DECISIONS.findall(text):
        counts[result] = counts.get(result, 0) + int(float(count))
    return counts


def render(seen: dict[str, Any], now: datetime) -> str:
    """The screen."""
    lines = []
    if seen["services"]:
        since = f", up for {_ago(seen['started'], now)}" if seen["started"] else ""
        lines += [f"Sidegate in {seen['state']} (pid {seen['pid']}){since}", ""]
        rows = [["SERVICE", "STATE", "PID", "FOR", "RESTARTS", ""]]
        rows += [
            [
                name,
                _state(service),
                str(service["pid"] or "-"),
                _ago(service["since"], now),
                str(service["restarts"]),
                service["reason"],
            ]
            for name, service in seen["services"].items()
        ]
        lines += [table(rows), ""]
    facts = {"uplink": f"unknown: no sidecar answers at {seen['url']}"}
    if seen["sidecar"] is not None:
        facts = _sidecar(seen["sidecar"])
    if seen["decisions"] is not None:
        allowed, denied = seen["decisions"]["allow"], seen["decisions"]["deny"]
        facts["decisions"] = f"{allowed} allowed, {denied} denied by the gatekeeper"
    if seen.get("witness") is not None:
        facts["witness"] = _witnessed(seen["witness"])
    return "\n".join([*lines, *(f"{name:<12}{fact}" for name, fact in facts.items())])


def _witnessed(witness: dict[str, Any]) -> str:
    """One line that is red as soon as the core's log is not what it was."""
    state = witness.get("state")
    if state in ALARMS:
        what = witness.get("text") or "the core shows no checkpoint that can be accepted"
        found = f"ALARM {witness.get('alarm', state)}: {what}"
        if witness.get("problem"):
            found = f"{found} ({witness['problem']})"
        if witness.get("evidence"):
            found = f"{found}; evidence: {', '.join(map(str, witness['evidence']))}"
        return click.style(found, fg="red", bold=True)
    if state == "watching":
        size = witness.get("size", 0)
        return f"{click.style('watching', fg='green')}, the log of {size} batches only grew"
    return f"{state}: {witness.get('problem') or 'no checkpoint yet'}"


def _sidecar(status: dict[str, Any]) -> dict[str, str]:
    uplink = str(status.get("uplink"))
    shown = click.style(uplink, fg="green" if uplink == "connected" else "red")
    reason = f": {status['uplink_reason']}" if status.get("uplink_reason") else ""
    committed = status.get("committed", {})
    denied = f"{status.get('denied', 0)} messages"
    last = status.get("last_denial")
    if isinstance(last, dict):
        denied = f"{denied}; the last: {last.get('detail') or last.get('topic')}"
    messages, batches = committed.get("messages", 0), committed.get("batches", 0)
    delivered, streams = status.get("delivered", 0), status.get("streams", 0)
    return {
        "uplink": f"{shown} since {status.get('uplink_since')}, {status.get('gatekeeper')}{reason}",
        "committed": f"{messages} messages in {batches} batches",
        "spooled": _spooled(status, status.get("queues", {})),
        "denied": denied,
        "delivered": f"{delivered} messages; {streams} subscriptions are open",
    }


def _spooled(status: dict[str, Any], queues: dict[str, Any]) -> str:
    waiting = f"{queues.get('waiting_messages', 0)} waiting, "
    waiting += f"{queues.get('unsettled_batches', 0)} batches under way"
    spool = status.get("spool")
    if isinstance(spool, dict):
        return f"{spool.get('messages', 0)} messages on disk, {waiting}"
    return waiting


def _state(service: dict[str, Any]) -> str:
    """It may have been ready once and be so no longer."""
    was_ready = service["state"] == "ready"
    return "not ready" if was_ready and not service["ready"] else str(service["state"])


def _ago(since: str, now: datetime) -> str:
    """How long ago, in the largest unit that is not zero."""
    seconds = max(0, int((now - datetime.fromisoformat(since)).total_seconds()))
    for unit, length in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= length:
            return f"{seconds // length}{unit}"
    return f"{seconds}s"
