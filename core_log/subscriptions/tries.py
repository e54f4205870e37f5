"""The failed tries of messages, as members tell of them: merged, bounded, and as JSON.

Pure. They are kept with a cursor, so that whoever gets a message next knows the whole history of
it. A try is a number, a time, a status and one sentence; never anything of the message itself.
"""

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import orjson

TRIES_MAX: Final = 100
"""Tries of one message that are kept, as many as a push may have: the first few and the newest."""
FIRST_TRIES_KEPT: Final = 10
"""Of them the first, which show how it began; what is dropped lies behind these."""
ERROR_BYTES_MAX: Final = 200
"""Of a try's error: one sentence."""
HISTORY_BYTES_MAX: Final = 256 * 1024
"""All tries of one cursor, as JSON: as much of a snapshot as its ranges may take. It is room for
ten tries each of some 250 messages. Those with the lowest offsets stay: they hold up all others."""
NUMBER_MAX: Final = 1_000_000
"""More than anybody tries."""
AT_US_MAX: Final = 2**53 - 1
"""A time that every reader of JSON understands: the year 2255."""
STATUS_MAX: Final = 999
"""HTTP has three digits."""


@dataclass(frozen=True, slots=True)
class Try:
    """One failed try. `status` is None where no answer came."""

    number: int
    at_us: int
    status: int | None
    error: str


Tries = tuple[Try, ...]
"""Of one message, by rising number."""


class BadTry(ValueError):
    """What should be a list of tries is none; the text says why."""


def parse_tries(value: object) -> Tries:
    """Read one message's tries. Raises BadTry."""
    if not isinstance(value, list) or not 1 <= len(value) <= TRIES_MAX:
        raise BadTry(f"each offset must have a list of 1 to {TRIES_MAX} tries")
    return merged((), map(_parse_try, value))


def _parse_try(value: object) -> Try:
    if not isinstance(value, dict) or value.keys() != {"number", "at_us", "status", "error"}:
        raise BadTry("a try has `number`, `at_us`, `status` and `error`, and nothing else")
    error = value["error"]
    if not isinstance(error, str) or len(error.encode()) > ERROR_BYTES_MAX:
        raise BadTry(f"`error` of a try must be a string of at most {ERROR_BYTES_MAX} bytes")
    return Try(
        _integer(value, "number", 1, NUMBER_MAX),
        _integer(value, "at_us", 0, AT_US_MAX),
        None if value["status"] is None else _integer(value, "status", 0, STATUS_MAX),
        error,
    )


def _integer(row: Mapping[str, object], name: str, least: int, most: int) -> int:
    value = row[name]
    if type(value) is not int or not least <= value <= most:
        raise BadTry(f"`{name}` of a try must be an integer between {least} and {most}")
    return value


def merged(known: Tries, added: Iterable[Try]) -> Tries:
    """All of them, one for each number: what was known first counts.

    Beyond `TRIES_MAX` those in the middle are dropped. One that was dropped once would be dropped
    ever after, so that neither the order of merging matters nor how often it is done.
    """
    by_number = {each.number: each for each in known}
    for each in added:
        by_number.setdefault(each.number, each)
    tries = tuple(by_number[number] for number in sorted(by_number))
    if len(tries) > TRIES_MAX:
        tries = tries[:FIRST_TRIES_KEPT] + tries[FIRST_TRIES_KEPT - TRIES_MAX :]
    return tries


def history_json(history: Mapping[int, Tries]) -> dict[str, Tries]:
    """Tries by offset as JSON has them, whose members have names."""
    return {str(offset): tries for offset, tries in history.items()}


class History:
    """The tries of one cursor's messages.

    Invariant: no message without a try is in it, and as JSON it never exceeds its bytes.
    It remembers which messages have changed since it was last written. Not thread-safe.
    """

    __slots__ = ("_bytes", "_bytes_max", "_changed", "_known")

    def __init__(self, bytes_max: int = HISTORY_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._known: dict[int, Tries] = {}
        self._bytes = 0
        self._changed: set[int] = set()

    def __bool__(self) -> bool:
        return bool(self._known)

    @property
    def known(self) -> dict[int, Tries]:
        """All of it, as a value."""
        return dict(self._known)

    def of(self, offsets: Iterable[int]) -> dict[int, Tries]:
        """The tries of those of these messages that have any."""
        if not self._known:
            return {}
        return {offset: self._known[offset] for offset in offsets if offset in self._known}

    @property
    def changed(self) -> bool:
        """True where `take_change` has something to say."""
        return bool(self._changed)

    def note(self, added: Mapping[int, Iterable[Try]]) -> None:
        """Further tries of these messages."""
        for offset, tries in added.items():
            known = self._known.get(offset, ())
            self._set(offset, merged(known, tries))
        while self._bytes > self._bytes_max:
            self._set(max(self._known), ())

    def keep_only(self, offsets: Container[int]) -> None:
        """Forget all others."""
        for offset in [each for each in self._known if each not in offsets]:
            self._set(offset, ())

    def take_change(self) -> dict[int, Tries]:
        """All tries of each message that has changed; none for one that was forgotten."""
        changed, self._changed = self._changed, set()
        return {offset: self._known.get(offset, ()) for offset in sorted(changed)}

    def replay(self, change: Mapping[int, Tries]) -> None:
        """Apply what `take_change` gave once."""
        for offset, tries in change.items():
            self._set(offset, tries)

    def written(self) -> None:
        """What it says now is on disk."""
        self._changed.clear()

    def _set(self, offset: int, tries: Tries) -> None:
        known = self._known.get(offset, ())
        if tries == known:
            return
        self._changed.add(offset)
        self._bytes += _size(tries) - _size(known)
        if tries:
            self._known[offset] = tries
        else:
            del self._known[offset]


def _size(tries: Tries) -> int:
    return len(orjson.dumps(tries)) if tries else 0
