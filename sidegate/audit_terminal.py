"""What the audit shows while it works: its steps, and how far the one that runs has come.

On a terminal one line that is written anew; elsewhere a line per step. Goes to standard error.
"""

import sys
import threading
import time

import click


class Steps:
    """The steps of one run. `tasks` may be called from another thread."""

    def __init__(self) -> None:
        self._terminal = sys.stderr.isatty()
        self._lock = threading.Lock()
        self._text = ""
        self._began = 0.0

    def begin(self, text: str) -> None:
        """The next step begins."""
        with self._lock:
            self._finish()
            self._text, self._began = text, time.monotonic()
            if self._terminal:
                click.echo(f"{text} …", err=True, nl=False)
            else:
                click.echo(text, err=True)

    def tasks(self, done: int, total: int) -> None:
        """So many tasks of the step that runs are done."""
        with self._lock:
            if self._terminal and self._text:
                click.echo(f"\r\x1b[K{self._text} … {done} of {total}", err=True, nl=False)

    def end(self) -> None:
        """All is done."""
        with self._lock:
            self._finish()
            self._text = ""

    def _finish(self) -> None:
        if self._terminal and self._text:
            seconds = time.monotonic() - self._began
            click.echo(f"\r\x1b[K{self._text}: {seconds:.1f} s", err=True)
