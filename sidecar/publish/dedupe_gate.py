"""Stands between those who publish with an id and the publisher: lets each id through once.

Keeps window and journal in step, and answers repeats: with the outcome, where it is known; with
the first one's outcome, where that is still open; from the log itself, where an earlier run of the
sidecar ended in between.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from sidecar.delivery.record_id import scoped_id
from sidecar.errors import DiskRefuses, InDoubt, SidecarError, retry_after
from sidecar.publish.batch import Batch, Committed, Entry, Kept, Outcome
from sidecar.publish.dedupe import DedupeWindow, Seen, Stage, dedupe_key
from sidecar.publish.dedupe_journal import DedupeJournal, Line, Mark
from sidecar.publish.id_search import CannotTell
from sidecar.publish.message import Message

log = logging.getLogger("sidegate.sidecar")

Search = Callable[[str, bytes, int], Awaitable[Committed | None]]
"""Topic, id and the time in microseconds since which it may be in the log."""
Submit = Callable[[Entry, float, int | None], None]
Wait = Callable[[Entry, float], None]
_US: Final = 1_000_000


class DedupeGate:
    """A hosting component, to be started before whatever publishes. Belongs to the event loop."""

    name = "dedupe"

    def __init__(
        self, window: DedupeWindow, journal: DedupeJournal, search: Search, late_s: float
    ) -> None:
        """`late_s` is how long a request of the run before this one may still reach the log."""
        self._window = window
        self._journal = journal
        self._search = search
        self._late_s = late_s
        self._late_until = 0.0
        self._searches: set[asyncio.Task[None]] = set()
        # From here on by the monotonic clock: a step of the other must forget no id.
        self._began_s = time.time() - time.monotonic()
        self.repeats = 0
        self.unwritten = 0

    def _clock(self) -> float:
        return self._began_s + time.monotonic()

    async def start(self) -> None:
        """Remember what earlier runs have seen."""
        self._late_until = time.monotonic() + self._late_s
        for line in self._journal.open():
            if line.mark is Mark.DONE:
                place = Committed("", line.partition, line.offset, "", line.durability)
                self._window.done(line.key, place, line.at_us / _US)
            elif line.mark is Mark.FORGOTTEN:
                self._window.forget(line.key)
            else:
                self._window.put(line.key, Seen(Stage.UNKNOWN, line.at_us / _US))

    async def drain(self) -> None:
        """Nothing to finish: whoever waits here waits for the publisher."""

    async def stop(self) -> None:
        """End the searches and give the files back."""
        for task in self._searches:
            task.cancel()
        await asyncio.gather(*self._searches, return_exceptions=True)
        self._journal.close()

    def found_in_spool(self, topic: str, identities: Iterable[bytes], now_s: float) -> None:
        """Ids of messages that an earlier run has left in the spool."""
        for identity in identities:
            key = dedupe_key(topic, identity)
            seen = self._window.find(key, now_s)
            if seen is None or seen.stage is not Stage.DONE:
                self._window.put(key, Seen(Stage.SPOOLED, now_s))

    def pass_on(
        self,
        entry: Entry,
        timeout_s: float,
        partition: int | None,
        submit: Submit,
        wait: Wait,
    ) -> None:
        """Publish an entry with an id, or answer it as the repeat that it is."""
        message = entry.payload
        identity = _identity(entry)
        if identity is None or not isinstance(message, Message):
            submit(entry, timeout_s, partition)
            return
        now_s = self._clock()
        key = dedupe_key(message.topic, identity)
        seen = self._window.find(key, now_s)
        if seen is None:
            if self._begin(key, entry, now_s):
                submit(entry, timeout_s, partition)
        elif seen.stage is Stage.DONE:
            self.repeats += 1
            entry.answer(_again(entry, message, seen))
        elif seen.stage is Stage.UNKNOWN:
            # Whoever else asks for it meanwhile waits for this one.
            since_us = int(seen.at_s * _US)
            if not self._begin(key, entry, now_s):
                return
            task = asyncio.create_task(
                self._ask_log(key, entry, since_us, timeout_s, partition, submit)
            )
            self._searches.add(task)
            task.add_done_callback(self._searches.discard)
        elif entry.ack.detached:
            self.repeats += 1
            entry.answer(_again(entry, message, seen))
        else:
            self.repeats += 1
            seen.followers.append(entry)
            entry.follows = seen
            wait(entry, timeout_s)

    def committed(self, batch: Batch, base_offset: int, durability: str) -> None:
        """A batch is in the log: called before its apps are answered."""
        if not batch.has_ids:
            return
        producer = batch.producer
        now_us = int(self._clock() * _US)
        lines: list[Line] = []
        told: list[tuple[Entry, Committed]] = []
        for index, identity in enumerate(batch.ids()):
            if identity is None:
                continue
            key = dedupe_key(producer.topic, identity)
            text = identity.decode("utf-8", "replace")
            place = Committed(
                producer.topic, producer.partition, base_offset + index, text, durability
            )
            lines.append(Line(Mark.DONE, key, now_us, place.partition, place.offset, durability))
            told += [(each, place) for each in self._window.done(key, place, now_us / _US)]
        self._note(lines)
        for entry, place in told:
            entry.answer(place._replace(id=entry.own_id or place.id))

    def batch_refused(self, batch: Batch, error: SidecarError) -> None:
        """A whole batch is surely not in the log, also for apps that were answered before."""
        for identity in batch.ids():
            if identity is not None:
                self.refused(batch.producer.topic, identity, error)

    def batch_unsettled(self, batch: Batch, error: SidecarError) -> None:
        """The log refuses a batch that an earlier try may have brought there: who asks for one of
        its ids again is answered by the log itself."""
        for identity in batch.ids():
            if identity is not None:
                key = dedupe_key(batch.producer.topic, identity)
                for follower in self._window.unsettle(key, self._clock()):
                    follower.answer(error)

    def forget(self, topic: str, identity: bytes) -> None:
        """The log was searched, and has no message with this id."""
        error = InDoubt("the log has refused it; it is published again at this moment")
        self.refused(topic, identity, error)

    def refused(self, topic: str, identity: bytes, error: SidecarError) -> None:
        """A message is surely not in the log: its id may be used again."""
        key = dedupe_key(topic, identity)
        followers = self._window.forget(key)
        self._note([Line(Mark.FORGOTTEN, key, int(self._clock() * _US))])
        for follower in followers:
            follower.answer(error)

    def _note(self, lines: list[Line]) -> None:
        """What became of ids. Where the disk does not take it, a later run asks the log."""
        try:
            self._journal.write(lines)
        except OSError as error:
            self.unwritten += len(lines)
            log.warning("ids could not be noted", extra={"fields": {"error": str(error)}})

    def _begin(self, key: bytes, entry: Entry, now_s: float) -> bool:
        """Note an id before its message goes on. False where that fails: a later run would not
        know the id, so the message is refused."""
        try:
            self._journal.write([Line(Mark.BEGUN, key, int(now_s * _US))])
        except OSError as error:
            entry.answer(
                DiskRefuses(
                    f"id: cannot be remembered ({error}); the message was not taken. Ask again "
                    "later, or publish it without an id",
                    headers=retry_after(1.0),
                )
            )
            return False
        self._window.put(key, Seen(Stage.PENDING, now_s, leader=entry))
        reply = entry.reply
        topic, identity = entry.payload.topic, _identity(entry)

        def noted(outcome: Outcome) -> None:
            if (
                isinstance(outcome, SidecarError)
                and not isinstance(outcome, InDoubt)
                and identity is not None
            ):
                self.refused(topic, identity, outcome)
            if reply is not None:
                reply(outcome)

        entry.reply = noted
        return True

    async def _ask_log(
        self,
        key: bytes,
        entry: Entry,
        since_us: int,
        timeout_s: float,
        partition: int | None,
        submit: Submit,
    ) -> None:
        identity = _identity(entry)
        if identity is None:
            return
        reason = "no answer in time"
        try:
            async with asyncio.timeout(timeout_s):
                found = await self._search(entry.payload.topic, identity, since_us)
                while found is None and (left_s := self._late_until - time.monotonic()) > 0:
                    # What the earlier run had sent may still be on its way there.
                    reason = f"it may still arrive there within {left_s:.0f} s"
                    await asyncio.sleep(left_s)
                    found = await self._search(entry.payload.topic, identity, since_us)
        except (CannotTell, TimeoutError) as error:
            for follower in self._window.unsettle(key, since_us / _US):
                follower.answer(_unknown(str(error) or reason))
            entry.answer(_unknown(str(error) or reason))
            return
        if found is None:
            submit(entry, timeout_s, partition)
            return
        now_us = int(self._clock() * _US)
        self._note([Line(Mark.DONE, key, now_us, found.partition, found.offset, found.durability)])
        followers = self._window.done(key, found, now_us / _US)
        self.repeats += 1
        for each in (entry, *followers):
            each.answer(found._replace(id=each.own_id or found.id))


def _unknown(reason: str) -> InDoubt:
    return InDoubt(
        "this id was accepted before a restart, and the log cannot tell what became of it "
        f"({reason}); ask again, or use a new id"
    )


def _identity(entry: Entry) -> bytes | None:
    """What a repeat of the entry is recognised by."""
    message = entry.payload
    return scoped_id(message.id, message.headers) if isinstance(message, Message) else None


def _again(entry: Entry, message: Message, seen: Seen) -> Outcome:
    """The first one's outcome, in the form that this one's `ack` asks for."""
    identity = (message.id or b"").decode("utf-8", "replace")
    if entry.ack.detached:
        return Kept(message.topic, identity, "spooled" if entry.keep else "none")
    return Committed(message.topic, seen.partition, seen.offset, identity, seen.durability)
