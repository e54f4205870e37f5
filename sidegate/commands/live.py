"""What the commands that print messages as they come share: a word when nothing comes, an end when
nobody reads any more, and text that does nothing to a terminal. Knows no topic and no stream."""

from __future__ import annotations

import select
import signal
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Iterator

# Nobody publishes within milliseconds; after this a silent terminal needs a word.
SILENCE_S = 3.0
# Before the block is told again that its reader is gone: a moment to a person, and more than it
# needs to end.
AGAIN_S = 1.0


def silence(topic: str, start: str | None, command: str) -> threading.Timer:
    """Says a word when nothing has come for a while; to be cancelled by the first message."""
    if start in {None, "latest"}:
        text = (
            "Nothing yet. A subscription begins at `latest`: it shows what is published from now "
            f"on. Older messages: sidegate {command} {topic} --from earliest"
        )
    else:
        text = (
            f"Nothing yet: {topic} holds nothing from there on. Waiting. "
            "`sidegate topics list` shows which topics hold messages."
        )
    word = threading.Timer(SILENCE_S, click.echo, [text], {"err": True})
    word.daemon = True
    return word


@contextmanager
def ends_with_reader() -> Iterator[None]:
    """Ctrl-C for the block once the reader of standard output is gone, as in `| head -1`.

    A write would find out, but the next message may never come. By a signal of its own: a shell
    lets jobs in the background ignore SIGINT.
    """
    poll = select.poll()
    try:
        # No event is asked for: an error or a hang-up is told always.
        poll.register(sys.stdout.fileno(), 0)
    except (OSError, ValueError):  # Standard output is closed, or is no file.
        yield
        return
    over = threading.Event()
    main = threading.main_thread().ident

    def watch() -> None:
        poll.poll()
        # A signal that comes just before the block begins to wait does not end that wait.
        while not over.is_set() and main is not None:
            signal.pthread_kill(main, signal.SIGUSR1)
            over.wait(AGAIN_S)

    signal.signal(signal.SIGUSR1, signal.default_int_handler)
    threading.Thread(target=watch, name="reader of standard output", daemon=True).start()
    try:
        yield
    finally:
        over.set()
        # Not as it was before: the default ends the process, and one more may be under way.
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)


def plain(text: str) -> str:
    """Text that does nothing to a terminal, whoever has published it."""
    return "".join(each if each.isprintable() else f"\\u{ord(each):04x}" for each in text)
