"""Lets a batch that has overtaken the one before it wait a moment for its turn.

A sidecar sends the next batches of a partition before the first is answered, on further
connections, and a smaller one may be read and checked sooner. Refused as a gap, it would come
again, with all that follows. Only the order of submission is arranged here; whether a batch fits
is the log's word alone (`producers.py`), and nothing depends on this for being correct. May import
`log_format`; must never know of HTTP.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from typing import Final, NamedTuple

from log_format.frame import Frame
from log_format.sequence import SEQUENCE_MAX, sequence_after

TURN_WAIT_S: Final = 0.2
"""What was overtaken is here by then, or was lost; then the log says that there is a gap."""
PRODUCERS_MAX: Final = 10_000
"""Producers whose next number is remembered, the latest ones: about 4 MiB. For any other nobody
waits."""


class _Key(NamedTuple):
    principal: str
    producer_id: int
    epoch: int
    topic: str
    partition: int


class Turns:
    """What was submitted of each producer, and who waits for it. Belongs to the event loop."""

    def __init__(self, wait_s: float = TURN_WAIT_S) -> None:
        self._wait_s = wait_s
        self._next: OrderedDict[_Key, int] = OrderedDict()
        self._waiting: dict[_Key, list[asyncio.Future[None]]] = {}

    async def wait(self, frames: Sequence[Frame]) -> None:
        """Return when the batch before each of these was submitted, or did not come in time."""
        late = self._ahead(frames)
        if not late:
            return
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + self._wait_s
        try:
            async with asyncio.timeout_at(deadline_s):
                for key, first in late:
                    while self._is_ahead(key, first):
                        await self._change_of(key, loop)
        except TimeoutError:
            return

    def submitted(self, frames: Sequence[Frame]) -> None:
        """These are on their way into the log, in this order: whoever waits for them may follow."""
        for frame in frames:
            key, part = _key_of(frame), frame.envelope.producer
            expected = self._next.get(key)
            if expected is not None and expected != part.first_sequence:
                # A repeat, or a gap after all: neither says what comes next.
                continue
            self._next[key] = sequence_after(part.first_sequence, part.count)
            self._next.move_to_end(key)
            for waiter in self._waiting.pop(key, ()):
                if not waiter.done():
                    waiter.set_result(None)
        while len(self._next) > PRODUCERS_MAX:
            self._next.popitem(last=False)

    def _ahead(self, frames: Sequence[Frame]) -> list[tuple[_Key, int]]:
        """The first batch of each producer, where it is not the one that comes next."""
        firsts: dict[_Key, int] = {}
        for frame in frames:
            firsts.setdefault(_key_of(frame), frame.envelope.producer.first_sequence)
        return [item for item in firsts.items() if self._is_ahead(*item)]

    def _is_ahead(self, key: _Key, first: int) -> bool:
        expected = self._next.get(key)
        return expected is not None and 0 < (first - expected) & SEQUENCE_MAX <= SEQUENCE_MAX // 2

    async def _change_of(self, key: _Key, loop: asyncio.AbstractEventLoop) -> None:
        waiter = loop.create_future()
        waiters = self._waiting.setdefault(key, [])
        waiters.append(waiter)
        try:
            await waiter
        finally:
            if waiter in waiters:
                waiters.remove(waiter)
            if not waiters and self._waiting.get(key) is waiters:
                del self._waiting[key]


def _key_of(frame: Frame) -> _Key:
    part, provenance = frame.envelope.producer, frame.envelope.provenance
    principal = "" if provenance is None else provenance.principal
    return _Key(principal, part.producer_id, part.epoch, part.topic, part.partition)
