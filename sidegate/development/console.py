"""What `sidegate up` shows: its own events, and of the services' log lines what matters.

Two ways to show the same: readable lines with the service's name in front, or one JSON object a
line (`--json`). Whole logs are in the run folder. Must never know how a service is run.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import click

# The longest name, so that the bars stand below each other.
NAME_WIDTH = 10
# A line that never ends must not fill the memory; what is longer is cut in pieces.
LINE_BYTES_MAX = 256 * 1024
SHOWN_LEVELS = frozenset({"warning", "error", "critical"})
STANDARD_MEMBERS = frozenset({"ts", "level", "service", "logger", "event", "exception"})
COLOURS = {"warning": "yellow", "error": "red", "critical": "red"}


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened: a stable kind for programs, a sentence for people, the facts."""

    kind: str
    text: str
    service: str | None = None
    level: str = "info"
    facts: Mapping[str, Any] = field(default_factory=dict)


class Console:
    """Prints events and log lines; `verbose` shows every log line, `as_json` is for programs.

    When nobody reads any more (a closed terminal, `| head`), it falls silent: what it shows must
    never be the reason why a service is not stopped.
    """

    def __init__(self, *, as_json: bool = False, verbose: bool = False) -> None:
        self._as_json = as_json
        self._verbose = verbose
        self._unheard = False

    def show(self, event: Event) -> None:
        if self._as_json:
            members = {"event": event.kind, "service": event.service, "text": event.text}
            self._print(json.dumps({**members, **event.facts}))
            return
        colour = COLOURS.get(event.level)
        for line in event.text.splitlines() or [""]:
            shown = click.style(line, fg=colour) if colour else line
            self._print(shown if event.service is None else f"{_prefix(event.service)}{shown}")

    def log_line(self, service: str, line: bytes) -> None:
        """Show a service's line if it matters. One that is no JSON is a traceback or worse."""
        try:
            members = json.loads(line)
        except ValueError:
            members = None
        if not isinstance(members, dict):
            text = line.decode("utf-8", "backslashreplace").rstrip()
            if text:
                self.show(Event("output", text, service, "error"))
            return
        level = str(members.get("level", "info"))
        if self._verbose or level in SHOWN_LEVELS:
            self.show(Event("log", readable(members), service, level, {"line": members}))

    def _print(self, line: str) -> None:
        if self._unheard:
            return
        try:
            click.echo(line)
        except OSError:
            self._unheard = True
            # Python flushes standard output once more at its end, and would complain then.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class Lines:
    """Cuts a stream of bytes into lines for `each`."""

    def __init__(self, each: Callable[[bytes], None]) -> None:
        self._each = each
        self._rest = b""

    def feed(self, piece: bytes) -> None:
        *whole, self._rest = (self._rest + piece).split(b"\n")
        for line in whole:
            self._each(line)
        if len(self._rest) > LINE_BYTES_MAX:
            self.end()

    def end(self) -> None:
        """No more is coming: what is left is a line too."""
        rest, self._rest = self._rest, b""
        if rest:
            self._each(rest)


def readable(members: Mapping[str, Any]) -> str:
    """A JSON log line as text: the event, its facts, its traceback below."""
    facts = " ".join(
        f"{name}={value if isinstance(value, str) else json.dumps(value)}"
        for name, value in members.items()
        if name not in STANDARD_MEMBERS
    )
    text = str(members.get("event", ""))
    if facts:
        text = f"{text}  {facts}"
    if "exception" in members:
        text = f"{text}\n{members['exception']}"
    # Facts may come from a caller: no control character of theirs reaches the terminal.
    return "".join(c if c.isprintable() or c == "\n" else f"\\x{ord(c):02x}" for c in text)


def _prefix(service: str) -> str:
    return click.style(f"{service:<{NAME_WIDTH}} │ ", dim=True)
