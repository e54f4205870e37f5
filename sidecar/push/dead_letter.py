"""Dead letters: a message that could not be delivered, with its history, and the way back.

The letter is the message itself (value, key, content type, time), with headers that say whose it
was, where it was, and what became of each try. Pure; may import `log_format` through `record.py`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

import orjson

from sidecar.delivery.record import Record, headers_of
from sidecar.delivery.rendering import render_time
from sidecar.delivery.tries import FIRST_TRIES_KEPT, Try, cut_error
from sidecar.publish.message import Message

PREFIX: Final = "sidegate-dead-"
HISTORY_SHOWN_MAX: Final = 50
"""Tries in a letter: the first ten and the last forty, so that its headers stay small."""


@dataclass(frozen=True, slots=True)
class Undelivered:
    """Whose message it is, and how often it was tried; `tries` has what is known of that."""

    owner: str
    subscription: str
    attempts: int
    tries: Sequence[Try]
    reason: str


def dead_letter(topic: str, record: Record, undelivered: Undelivered) -> Message:
    """The message to publish to `topic`.

    Its id is the same whenever the same failure is written again, so that a repeat is dropped.
    """
    last = undelivered.tries[-1] if undelivered.tries else None
    place = f"{record.topic}/{record.partition}/{record.offset}"
    # The last try's time tells a letter that failed again, after a redrive, from the first one.
    when = 0 if last is None else last.at_us
    whose = f"{undelivered.owner}\0{undelivered.subscription}\0{place}\0{when}"
    first = undelivered.tries[0].at_us if undelivered.tries else record.event_us
    added = {
        "owner": undelivered.owner,
        "subscription": undelivered.subscription,
        "topic": record.topic,
        "partition": str(record.partition),
        "offset": str(record.offset),
        "id": record.id,
        "principal": record.principal or "",
        "reason": undelivered.reason,
        "attempts": str(undelivered.attempts),
        "first-attempt": render_time(first).decode("ascii"),
        "last-attempt": render_time(last.at_us if last else first).decode("ascii"),
        "status": "" if last is None or last.status is None else str(last.status),
        "error": "" if last is None else cut_error(last.error),
        "history": _history(undelivered.tries),
    }
    headers = {**original_headers(record), **{PREFIX + name: text for name, text in added.items()}}
    return Message(
        topic,
        record.value,
        record.event_us,
        record.key,
        b"dead-" + sha256(whose.encode()).hexdigest()[:40].encode(),
        record.content_type,
        orjson.dumps(headers),
    )


def is_letter_of(record: Record, owner: str, subscription: str) -> bool:
    """Whether a record of a dead letters' topic is one of this subscription."""
    headers = headers_of(record)
    return (
        headers.get(PREFIX + "subscription") == subscription
        and headers.get(PREFIX + "owner") == owner
    )


def original_of(letter: Record) -> tuple[Record, list[Try]]:
    """The message as it was, at its old place, and the tries that its letter tells of."""
    headers = headers_of(letter)
    kept = original_headers(letter)
    original = letter._replace(
        topic=headers.get(PREFIX + "topic", letter.topic),
        partition=_number(headers.get(PREFIX + "partition"), letter.partition),
        offset=_number(headers.get(PREFIX + "offset"), letter.offset),
        id=headers.get(PREFIX + "id", letter.id),
        principal=headers.get(PREFIX + "principal") or None,
        headers=orjson.dumps(kept) if kept else None,
    )
    return original, _tries(headers.get(PREFIX + "history", ""))


def original_headers(record: Record) -> dict[str, str]:
    """The message's own headers, without those of a letter that it may have been before."""
    return {
        name: text
        for name, text in headers_of(record).items()
        if not name.lower().startswith(PREFIX)
    }


def _history(tries: Sequence[Try]) -> str:
    shown = list(tries)
    if len(shown) > HISTORY_SHOWN_MAX:
        shown = [*shown[:FIRST_TRIES_KEPT], *shown[FIRST_TRIES_KEPT - HISTORY_SHOWN_MAX :]]
    rows = [
        {
            "attempt": each.number,
            "at": render_time(each.at_us).decode("ascii"),
            "at_us": each.at_us,
            "status": each.status,
            "error": cut_error(each.error),
        }
        for each in shown
    ]
    return orjson.dumps(rows).decode()


def _tries(text: str) -> list[Try]:
    """The history of a letter; what is not understood is left out: whoever may write the topic
    may have written it."""
    try:
        rows = orjson.loads(text)
        return [
            Try(
                int(row["attempt"]),
                int(row["at_us"]),
                None if row["status"] is None else int(row["status"]),
                cut_error(str(row["error"])),
            )
            for row in rows[:HISTORY_SHOWN_MAX]
        ]
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError):
        return []


def _number(text: str | None, otherwise: int) -> int:
    if text is None or not text.isascii() or not text.isdigit() or len(text) > 19:
        return otherwise
    return int(text)
