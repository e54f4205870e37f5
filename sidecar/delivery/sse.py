"""Server-sent events as bytes. Pure; the WHATWG specification's chapter 9.2 is the contract."""

from collections.abc import Mapping, Sequence
from typing import Final

from sidecar.delivery.position import encode_position

HEARTBEAT: Final = b": heartbeat\n"
"""A comment: readers ignore it, and proxies and dead connections show themselves. No empty line
follows, which PyPI's `httpx-sse` would take for the end of an event without data."""
RETRY: Final = b"retry: 1000\n"
"""When readers come back after a lost connection, in milliseconds: a sidecar restarts within a
second. A line of its own, for the same reason."""


def encode_event(position: str, data: bytes) -> bytes:
    """One event. `data` must be a single line, as a rendered envelope is."""
    return b"id: %s\ndata: %s\n\n" % (position.encode("ascii"), data)


def spell_events(
    lines: Sequence[str], offsets: Sequence[int], partition: int, positions: Mapping[int, int]
) -> str:
    """Messages of one partition as events; each id is where to go on behind it.

    Lines are spelled, one character a byte, and so is the result.
    """
    if len(positions) > 1 or partition not in positions:
        others = {each: offset for each, offset in positions.items() if each != partition}
        before = encode_position({at: others[at] for at in others if at < partition})
        after = encode_position({at: others[at] for at in others if at > partition})
        begin = f"id: {before}{'_' if before else ''}{partition}-"
        end = f"{'_' if after else ''}{after}\ndata: "
    else:
        begin, end = f"id: {partition}-", "\ndata: "
    return "".join(
        [f"{begin}{offset + 1}{end}{line}\n\n" for offset, line in zip(offsets, lines, strict=True)]
    )


def encode_gap(position: str, data: bytes) -> bytes:
    """Says that offsets are missing, as an event of its own name: it is no message.

    Readers that listen for messages only are not disturbed by it.
    """
    return b"event: gap\n" + encode_event(position, data)


def encode_position_event(position: str) -> bytes:
    """Where a reader of what is new stands before its first message, as an event of its own name.

    For readers that come back by themselves: one that loses the connection before its first
    message comes back to where it was, not to the end of the topic. An id alone would not do, for
    npm's `eventsource` takes ids from events with data only.
    """
    return b"event: position\n" + encode_event(position, b"{}")
