"""One subscription at work: its state machine joined to its members' streams, its cursors, time.

Events go into the group (`ordered` or `fcfs`), effects come out and are carried out here. Decides
nothing by itself. Belongs to the event loop; the group's clock is the loop's, which only runs.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from core_log.api import member_messages
from core_log.api.member_messages import Ack, Attempts, Heartbeat, Nack, Released, Said
from core_log.api.member_stream import Again, MemberStream
from core_log.api.stream import StreamEnded
from core_log.api.stream_messages import BadMessage, Credit
from core_log.control.topic_log import TopicLog
from core_log.subscriptions.cursor import Cursor, Range
from core_log.subscriptions.cursor_log import CursorLog
from core_log.subscriptions.cursor_records import Key
from core_log.subscriptions.fcfs import Fcfs
from core_log.subscriptions.handing import (
    Assign,
    BadAnswer,
    Effect,
    Ended,
    Fenced,
    Group,
    Redeliver,
    Revoke,
    without,
)
from core_log.subscriptions.members import MEMBERS_MAX
from core_log.subscriptions.ordered import Ordered
from core_log.subscriptions.subscriptions import Subscription
from core_log.subscriptions.tries import Tries


class Delivery:
    """A subscription with members, or with some a moment ago.

    Invariant: `streams` has exactly the members of the group. `on_work` is called where an fcfs
    subscription may have something to hand out.
    """

    def __init__(
        self,
        subscription: Subscription,
        log: TopicLog,
        cursors: CursorLog,
        number: Callable[[], int],
    ) -> None:
        self.subscription = subscription
        self.log = log
        self.streams: dict[int, MemberStream] = {}
        self._cursors = cursors
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        self._unsaid: dict[tuple[int, int, int], list[Range]] = {}
        self._token = "generation" if subscription.mode == "ordered" else "lease"
        kind = Ordered if subscription.mode == "ordered" else Fcfs
        self.group: Group = kind(
            self._cursors_of(range(log.topic.partitions)),
            lease_s=subscription.lease_s,
            number=number,
        )
        self.work = asyncio.Event()
        """Set where an fcfs subscription may have something to hand out."""

    @property
    def id(self) -> int:
        """The subscription's id."""
        return self.subscription.id

    @property
    def now(self) -> float:
        """Seconds of the clock that leases run by."""
        return self._loop.time()

    # Members.

    def join(self, stream: MemberStream, name: str, since_us: int) -> None:
        """A member has come. Raises StreamEnded where there are too many."""
        replaces = self.group.members.named(name) is not None
        if len(self.group.members) >= MEMBERS_MAX and not replaces:
            raise StreamEnded(
                "too_many_members",
                f"subscription {self.subscription.name!r} has {MEMBERS_MAX} members, its limit",
            )
        self.streams[stream.session] = stream
        stream.begin(member_messages.opened(self.subscription))
        if self.subscription.paused:
            stream.say(member_messages.paused(now=True))
            stream.stop(full=False, paused=True)
        self._play(self.group.join(stream.session, name, now=self.now, since_us=since_us))

    def leave(self, stream: MemberStream) -> None:
        """A member's stream has ended, whatever the reason."""
        if self.streams.pop(stream.session, None) is not None:
            self._play(self.group.lost(stream.session, self.now))

    def said(self, session: int, message: Said) -> None:
        """A member's message. Raises BadMessage and TooManyRanges, which end its stream."""
        if session not in self.streams:
            return
        self.group.heard(session, self.now)
        try:
            match message:
                case Ack():
                    self._ack(session, message)
                case Nack(partition, token, offsets, delay_s):
                    again_at = self.now + delay_s
                    effects = self.group.nack(
                        session, partition, token, offsets, again_at, self.now
                    )
                    self._play(effects, partition)
                case Attempts(partition, token, totals, history):
                    effects = self.group.attempts(session, partition, token, totals, history)
                    self._play(effects, partition)
                case Released(partition, token):
                    self._play(self.group.released(session, partition, token, self.now), partition)
                case Credit(count):
                    self.streams[session].grant(count)
                case Heartbeat():
                    pass
        except BadAnswer as error:
            raise BadMessage(str(error)) from error

    def _ack(self, session: int, message: Ack) -> None:
        partition, ranges = message.partition, message.ranges
        effects = self.group.ack(session, partition, message.token, ranges, self.now)
        if effects and isinstance(effects[0], Fenced):
            self._play(effects)
            return
        key = self.id, partition
        slot = self._cursors.batch, session, partition
        unsaid = self._unsaid.get(slot)
        if unsaid is None:
            # Several acknowledgements that share a sync share an answer.
            self._unsaid[slot] = list(ranges)
            self._cursors.moved(key, partial(self._written, slot))
        else:
            unsaid += ranges
            self._cursors.moved(key)
        if effects:
            self._play(effects)
        self._limit(session, partition)
        self.work.set()

    def _written(self, slot: tuple[int, int, int], lows: Mapping[Key, int]) -> None:
        ranges = self._unsaid.pop(slot)
        _, session, partition = slot
        stream = self.streams.get(session)
        if stream is not None and (self.id, partition) in lows:
            done = self._done_of(partition, ranges)
            stream.say(member_messages.acked(partition, lows[self.id, partition], done))

    def _done_of(self, partition: int, ranges: list[Range]) -> list[Range]:
        """The ranges, sorted and merged, without what is not done: it was another's to say."""
        merged: list[Range] = []
        for first, last in sorted(ranges):
            if merged and first <= merged[-1][1] + 1:
                merged[-1] = merged[-1][0], max(last, merged[-1][1])
            else:
                merged.append((first, last))
        cursor = self.group.partitions[partition].cursor
        for first, last in list(merged):
            for begin, end in cursor.open_ranges(first, last + 1):
                merged = without(merged, begin, end)
        return merged

    # What members' streams have done.

    def gave(self, session: int, partition: int, next_offset: int) -> None:
        """Everything of a partition up to `next_offset` is on its way to its holder."""
        if isinstance(self.group, Ordered):
            self.group.gave(session, partition, next_offset)
            self._limit(session, partition)

    def skipped(self, partition: int, first: int, end: int) -> None:
        """These offsets can't be read any more."""
        self._play(self.group.skip(partition, first, end, self.now), partition)

    def ready(self) -> None:
        """A member can take more than a moment ago."""
        self.work.set()

    def attempts_of(
        self, partition: int, offsets: Sequence[int]
    ) -> tuple[dict[int, int], dict[int, Tries]]:
        """How often these messages were tried, and what is known of the tries."""
        cursor = self.group.partitions[partition].cursor
        known = cursor.attempts
        attempts = {offset: known[offset] for offset in offsets if offset in known}
        return attempts, cursor.history.of(attempts)

    # What happens to the subscription.

    async def ack_by_hand(self, partition: int, ranges: Sequence[Range]) -> None:
        """Done, whoever has it; returns once that is durable. Raises TooManyRanges."""
        effects = self.group.ack_by_hand(partition, ranges, self.now)
        self._play(effects, partition)
        self._limit_all()
        await self._cursors.durable([(self.id, partition)])

    async def nack_by_hand(self, partition: int, offsets: Sequence[int], delay_s: float) -> None:
        """One attempt more, whoever has it; returns once that is durable."""
        now = self.now
        self._play(self.group.nack_by_hand(partition, offsets, now + delay_s, now), partition)
        await self._cursors.durable([(self.id, partition)])

    async def seek(self, lows: Mapping[int, int]) -> None:
        """Begin anew at these offsets; returns once that is durable."""
        self._play(self.group.seek(lows, self.now))
        self._limit_all()
        await self._cursors.durable([(self.id, partition) for partition in lows])

    def altered(self, subscription: Subscription) -> None:
        """The definition has changed, in nothing that needs another group."""
        was, self.subscription = self.subscription, subscription
        if was.paused != subscription.paused:
            for stream in self.streams.values():
                stream.say(member_messages.paused(now=subscription.paused))
            self._limit_all()
        if (was.push, was.settings) != (subscription.push, subscription.settings):
            for stream in self.streams.values():
                stream.say(member_messages.changed(subscription))

    def grow(self, log: TopicLog) -> None:
        """The topic was altered; it may have more partitions."""
        added = range(self.log.topic.partitions, log.topic.partitions)
        self.log = log
        for stream in self.streams.values():
            stream.grown(log)
        self._play(self.group.grow(self._cursors_of(added), self.now))
        self.work.set()

    def end(self, code: str, detail: str) -> None:
        """End all streams, and do nothing more."""
        if self._timer is not None:
            self._timer.cancel()
        streams, self.streams = self.streams, {}
        for stream in streams.values():
            stream.end(code, detail)

    # Carrying out.

    def _play(self, effects: Iterable[Effect], partition: int | None = None) -> None:
        for effect in effects:
            self._carry_out(effect)
        parts = range(len(self.group.partitions)) if partition is None else (partition,)
        for number in parts:
            if number < len(self.group.partitions) and self.group.partitions[number].cursor.changed:
                self._cursors.moved((self.id, number))
        self._schedule()
        self.work.set()

    def _carry_out(self, effect: Effect) -> None:
        stream = self.streams.get(effect.session)
        if stream is None:
            return
        match effect:
            case Assign(session, partition, generation):
                cursor = self.group.partitions[partition].cursor
                end = self.log.extent(partition).end
                stream.say(
                    member_messages.assign(
                        partition,
                        generation,
                        cursor.low,
                        cursor.acked,
                        cursor.attempts,
                        end,
                        cursor.history.known,
                    )
                )
                stream.assign(partition, cursor.low)
                self._limit(session, partition)
            case Revoke(_, partition, token):
                stream.revoke(partition)
                stream.say(member_messages.about_token("revoke", partition, self._token, token))
            case Redeliver(_, partition, generation, offsets):
                stream.send_again(Again(partition, generation, offsets))
            case Fenced(_, partition, token):
                stream.say(member_messages.about_token("fenced", partition, self._token, token))
            case Ended(session, code, detail):
                del self.streams[session]
                stream.end(code, detail)

    def _limit(self, session: int, partition: int) -> None:
        """Stop a member that holds too much, and a partition with too many gaps; or let them on."""
        member, stream = self.group.members.get(session), self.streams.get(session)
        if member is not None and stream is not None:
            stream.stop(full=member.full, paused=self.subscription.paused)
            slow = self.group.partitions[partition].cursor.slow
            stream.hold(partition, held=slow)

    def _limit_all(self) -> None:
        for session in self.streams:
            for partition in range(len(self.group.partitions)):
                self._limit(session, partition)
        self.work.set()

    def _schedule(self) -> None:
        due = self.group.next_due()
        if self._timer is not None:
            if due is not None and self._timer_at <= due:
                # It fires too early at worst, and looks again then.
                return
            self._timer.cancel()
            self._timer = None
        if due is not None:
            self._timer_at = due
            self._timer = self._loop.call_at(due, self._tick)

    def _tick(self) -> None:
        self._timer = None
        self._play(self.group.tick(self.now))

    def _cursors_of(self, partitions: Iterable[int]) -> list[Cursor]:
        topic = self.log.topic
        return [
            self._cursors.cursor((self.id, number), self.subscription.low(number, topic))
            for number in partitions
        ]
