"""Asks a service whether it is ready, and the mesh whether a message can go through it.

Only questions over HTTP, each with a short time limit; nothing is published, so that the user's
first message gets offset 0.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path

from sidegate.client import Connection, Unreachable

# A local health page answers in milliseconds; one that needs longer is not ready.
PROBE_S_MAX = 2.0


@dataclass(frozen=True, slots=True)
class Verdict:
    """Ready, or why not yet."""

    ready: bool
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Probe:
    """Where a service says whether it is ready; `ca` verifies it where that is an https page."""

    url: str
    ca: Path | None = None

    def ask(self) -> Verdict:
        """What `/readyz` says."""
        try:
            with self._connection() as connection:
                answer = connection.request("GET", "/readyz")
        except Unreachable as error:
            return Verdict(ready=False, reason=str(error))
        return Verdict(answer.ok, "" if answer.ok else _unready(answer.document()))

    def _connection(self) -> Connection:
        tls = None
        if self.ca is not None:
            tls = ssl.create_default_context(cafile=str(self.ca))
        return Connection(self.url, timeout_s=PROBE_S_MAX, tls=tls)


def way_through(sidecar_url: str) -> Verdict:
    """Whether a message would go all the way: the sidecar is connected, and a question that only
    the core can answer comes back through gatekeeper and policy."""
    try:
        with Connection(sidecar_url, timeout_s=PROBE_S_MAX) as connection:
            status = connection.request("GET", "/status").document()
            if not isinstance(status, dict) or status.get("uplink") != "connected":
                reason = status.get("uplink_reason") if isinstance(status, dict) else None
                return Verdict(ready=False, reason=f"the sidecar is not connected: {reason or ''}")
            answer = connection.request("GET", "/topics")
    except Unreachable as error:
        return Verdict(ready=False, reason=str(error))
    return Verdict(answer.ok, "" if answer.ok else f"the core can't be asked: {answer.problem()}")


def _unready(document: object) -> str:
    """The checks that fail, in one line."""
    checks = document.get("checks") if isinstance(document, dict) else None
    if not isinstance(checks, dict):
        return "it is not ready"
    failing = [
        f"{name} ({_facts(check)})" if _facts(check) else str(name)
        for name, check in checks.items()
        if isinstance(check, dict) and not check.get("ready")
    ]
    return f"not ready: {', '.join(failing)}" if failing else "it is still starting"


def _facts(check: dict[str, object]) -> str:
    return ", ".join(f"{name}: {value}" for name, value in check.items() if name != "ready")
