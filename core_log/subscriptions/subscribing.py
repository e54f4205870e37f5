"""All subscriptions of a core: what is decided about them, recorded, and carried out.

Joins the pure decisions of `subscriptions` to the control log, the catalogue, the log of cursors
and the deliveries that are at work. Must never know of HTTP.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import count

from core_log.api.member_stream import MemberStream
from core_log.api.stream import Outlet, StreamTotals, offset_at
from core_log.api.stream_messages import FromOffsets, Start
from core_log.api.streams import Broadcast
from core_log.clock import Clock, SystemClock
from core_log.control.catalog import Catalog
from core_log.control.control import ControlLog, Decide
from core_log.control.control_state import (
    NOBODY,
    Cause,
    ControlState,
    Fact,
    SubscriptionDeleted,
    SubscriptionPut,
)
from core_log.control.topic_log import TopicLog
from core_log.control.topics import Topic, UnknownTopic
from core_log.subscriptions import subscriptions
from core_log.subscriptions.cursor import Range
from core_log.subscriptions.cursor_log import CursorLog
from core_log.subscriptions.delivery import Delivery
from core_log.subscriptions.fcfs import Fcfs
from core_log.subscriptions.hand_out import HandOut
from core_log.subscriptions.handing import Numbers
from core_log.subscriptions.subscriptions import (
    Alteration,
    BadSubscription,
    Subscription,
    SubscriptionExists,
    TopicMismatch,
    UnknownSubscription,
    Wanted,
)

log = logging.getLogger("sidegate.core")


class Subscribing:
    """Every subscription. Belongs to one event loop."""

    def __init__(
        self,
        control: ControlLog,
        catalog: Catalog,
        cursors: CursorLog,
        broadcast: Broadcast,
        *,
        clock: Clock | None = None,
    ) -> None:
        self._control = control
        self._catalog = catalog
        self._cursors = cursors
        self._broadcast = broadcast
        self._clock = clock or SystemClock()
        self._numbers = Numbers(cursors.run)
        self._sessions = count(1)
        self._deliveries: dict[int, Delivery] = {}
        self._hand_outs: dict[int, HandOut] = {}
        self._known = control.state.subscriptions
        self._began = control.state.version
        self._changed_at: dict[str, int] = {}
        self._news: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        cursors.keep({each.id for each in self._known.values()})
        catalog.watch(self._topic_changed)

    def __len__(self) -> int:
        return len(self._control.state.subscriptions)

    @property
    def members(self) -> int:
        """Members of all subscriptions."""
        return sum(len(each.streams) for each in self._deliveries.values())

    @property
    def in_flight(self) -> int:
        """Messages in the hands of all members."""
        return sum(
            member.in_flight for each in self._deliveries.values() for member in each.group.members
        )

    def lag(self, subscription: Subscription) -> int:
        """How many messages a subscription has not acknowledged."""
        topic_log = self._log_of(subscription)
        lag = 0
        for extent in topic_log.extents():
            cursor = self._cursors.find((subscription.id, extent.partition))
            low = subscription.low(extent.partition, topic_log.topic)
            lag += max(0, extent.end - low) if cursor is None else cursor.open_below(extent.end)
        return lag

    # Looking.

    def find(self, owner: str, name: str) -> Subscription | None:
        """A subscription, if the owner has one of this name."""
        return self._control.state.subscriptions.get((owner, name))

    def get(self, owner: str, name: str, *, topic: str | None = None) -> Subscription:
        """A subscription, or UnknownSubscription; on another topic than `topic`, TopicMismatch."""
        found = self.find(owner, name)
        if found is None:
            raise UnknownSubscription(owner, name)
        if topic is not None and topic != found.topic:
            raise TopicMismatch(name, found.topic)
        return found

    def of_owner(self, owner: str) -> tuple[int, list[Subscription]]:
        """All subscriptions of an owner in order of name, and the version that this is of."""
        state = self._control.state
        mine = [each for each in state.subscriptions.values() if each.owner == owner]
        return state.version, sorted(mine, key=lambda each: each.name)

    def all(self) -> list[Subscription]:
        """Every subscription."""
        return list(self._control.state.subscriptions.values())

    async def news(self, owner: str, after: int) -> None:
        """Return once a definition of this owner has changed after a version.

        What happened before this run is not remembered one by one: who asks for that is answered.
        """
        while self._began <= after <= self._control.state.version:
            if self._changed_at.get(owner, 0) > after:
                return
            await asyncio.shield(self._news)

    def delivery(self, subscription: Subscription) -> Delivery:
        """The subscription at work."""
        found = self._deliveries.get(subscription.id)
        if found is None:
            found = self._deliveries[subscription.id] = Delivery(
                subscription, self._log_of(subscription), self._cursors, self._numbers
            )
        return found

    def _log_of(self, subscription: Subscription) -> TopicLog:
        return self._catalog.log_of(self._catalog.get(subscription.topic))

    # Changing definitions.

    async def create(
        self, wanted: Wanted, owner: str, cause: Cause = NOBODY
    ) -> tuple[Subscription, bool]:
        """The subscription, and whether this call made it. Raises SubscriptionExists."""
        topic = await self._catalog.ensure(wanted.topic, cause)
        subscriptions.mode_of(wanted, topic)
        lows = await self._places(self._catalog.log_of(topic), wanted.start)
        made: list[Subscription] = []

        def decide(state: ControlState) -> list[Fact]:
            if state.topics.get(topic.name) is None:
                raise UnknownTopic(topic.name)
            existing = state.subscriptions.get((owner, wanted.name))
            if existing is not None:
                subscriptions.compare(existing, wanted, topic)
                return []
            new = subscriptions.create(
                wanted,
                owner,
                topic,
                lows=[lows[number] for number in sorted(lows)],
                now_us=self._clock.now_us(),
                version=state.version + 1,
            )
            subscriptions.check_room(state.subscriptions.values(), new)
            made.append(new)
            return [SubscriptionPut(each) for each in made]

        await self._change(decide, cause)
        if made:
            fields = {"subscription": wanted.name, "owner": owner, "topic": topic.name}
            log.info("subscription created", extra={"fields": fields | {"by": cause.principal}})
        return self.get(owner, wanted.name), bool(made)

    async def ensure(self, wanted: Wanted, owner: str, cause: Cause = NOBODY) -> Subscription:
        """The subscription, made where it is missing; on another topic, SubscriptionExists."""
        found = self.find(owner, wanted.name)
        if found is None:
            try:
                found, _ = await self.create(wanted, owner, cause)
            except SubscriptionExists:
                # Somebody else made it, with a definition of their own, while this waited.
                found = self.get(owner, wanted.name)
        if found.topic != wanted.topic:
            raise SubscriptionExists(owner, wanted.name, ["topic"])
        return found

    async def alter(
        self,
        owner: str,
        name: str,
        change: Alteration,
        *,
        if_version: int | None = None,
        topic: str | None = None,
        cause: Cause = NOBODY,
    ) -> Subscription:
        """The subscription after the change."""

        def decide(state: ControlState) -> list[Fact]:
            existing = self.get(owner, name, topic=topic)
            version = state.version + 1
            new = subscriptions.alter(existing, change, if_version=if_version, version=version)
            if new is None:
                return []
            subscriptions.check_room(state.subscriptions.values(), new)
            return [SubscriptionPut(new)]

        await self._change(decide, cause)
        altered = self.get(owner, name)
        delivery = self._deliveries.get(altered.id)
        if delivery is not None:
            was = delivery.subscription
            if (was.mode, was.lease_ms) != (altered.mode, altered.lease_ms):
                text = f"subscription {name!r} has another mode or lease now; open the stream again"
                self._end(altered.id, "subscription_changed", text)
            else:
                delivery.altered(altered)
        return altered

    async def delete(
        self,
        owner: str,
        name: str,
        *,
        if_version: int | None = None,
        topic: str | None = None,
        cause: Cause = NOBODY,
    ) -> None:
        """End the subscription."""
        ended: list[Subscription] = []

        def decide(_state: ControlState) -> list[Fact]:
            existing = self.get(owner, name, topic=topic)
            subscriptions.check_version(existing, if_version)
            ended.append(existing)
            return [SubscriptionDeleted(owner, name)]

        await self._change(decide, cause)
        fields = {"subscription": name, "owner": owner, "by": cause.principal}
        log.info("subscription deleted", extra={"fields": fields})
        for each in ended:
            self._end(each.id, "subscription_deleted", f"subscription {name!r} was deleted")
        self._cursors.forget({each.id for each in ended})

    async def _change(self, decide: Decide, cause: Cause) -> None:
        await self._control.change(decide, cause)
        self._note_changes()

    # Moving.

    async def seek(self, subscription: Subscription, to: Start) -> None:
        """Begin anew at a place; a partition that offsets do not name stays where it is."""
        delivery = self.delivery(subscription)
        only = None if not isinstance(to, FromOffsets) else sorted(to.offsets)
        await delivery.seek(await self._places(delivery.log, to, only))

    async def ack(
        self, subscription: Subscription, partition: int, ranges: Sequence[Range]
    ) -> None:
        """Acknowledge by hand."""
        delivery = self.delivery(subscription)
        end = delivery.log.extent(delivery.log.check_partition(partition)).end
        if any(last >= end for _, last in ranges):
            raise BadSubscription(
                f"ranges: partition {partition} ends at {end}, and what is not there can't be done"
            )
        await delivery.ack_by_hand(partition, ranges)

    async def nack(
        self, subscription: Subscription, partition: int, offsets: Sequence[int], delay_s: float
    ) -> None:
        """Give out again, by hand."""
        delivery = self.delivery(subscription)
        end = delivery.log.extent(delivery.log.check_partition(partition)).end
        if any(offset >= end for offset in offsets):
            raise BadSubscription(f"offsets: partition {partition} ends at {end}")
        await delivery.nack_by_hand(partition, offsets, delay_s)

    async def _places(
        self, topic_log: TopicLog, start: Start, only: Sequence[int] | None = None
    ) -> Mapping[int, int]:
        numbers = range(topic_log.topic.partitions) if only is None else only
        return {
            number: await offset_at(topic_log, topic_log.check_partition(number), start)
            for number in numbers
        }

    # Members.

    def join(
        self,
        subscription: Subscription,
        member: str,
        outlet: Outlet,
        totals: StreamTotals,
        *,
        credit: int,
    ) -> tuple[Delivery, MemberStream]:
        """A member's stream, in the subscription. Raises StreamEnded."""
        delivery = self.delivery(subscription)
        stream = MemberStream(
            next(self._sessions),
            delivery,
            delivery.log,
            outlet,
            self._broadcast,
            totals,
            credit=credit,
        )
        delivery.join(stream, member, self._clock.now_us())
        if isinstance(delivery.group, Fcfs):
            hand_out = self._hand_outs.get(delivery.id)
            if hand_out is None:
                fail = partial(self._end, delivery.id)
                hand_out = HandOut(delivery, delivery.group, self._broadcast, on_failure=fail)
                self._hand_outs[delivery.id] = hand_out
            hand_out.start()
        return delivery, stream

    def leave(self, delivery: Delivery, stream: MemberStream) -> None:
        """A member's stream has ended."""
        delivery.leave(stream)
        if not delivery.streams:
            self._stop_hand_out(delivery)

    def _stop_hand_out(self, delivery: Delivery) -> None:
        if self._deliveries.get(delivery.id) in (delivery, None):
            hand_out = self._hand_outs.pop(delivery.id, None)
            if hand_out is not None:
                hand_out.stop()

    def close(self) -> None:
        """The core stops: no timer and no task goes on."""
        for number in list(self._deliveries):
            self._end(number, "draining", "this core is stopping; open the stream again")

    def _end(self, number: int, code: str, detail: str) -> None:
        delivery = self._deliveries.get(number)
        if delivery is not None:
            self._stop_hand_out(delivery)
            del self._deliveries[number]
            delivery.end(code, detail)

    # What changes elsewhere.

    def _topic_changed(self, name: str, topic: Topic | None) -> None:
        for delivery in [d for d in self._deliveries.values() if d.subscription.topic == name]:
            if topic is None:
                self._end(delivery.id, "topic_deleted", f"topic {name!r} was deleted")
            else:
                delivery.grow(self._catalog.log_of(topic))
        if topic is None:
            self._cursors.keep({each.id for each in self._control.state.subscriptions.values()})
            self._note_changes()

    def _note_changes(self) -> None:
        """Find out whose definitions have changed, and wake those who wait for it."""
        state = self._control.state
        if state.subscriptions is self._known:
            return
        old, self._known = self._known, state.subscriptions
        owners = {key[0] for key in old.keys() ^ self._known.keys()}
        owners |= {
            key[0] for key, each in self._known.items() if key in old and old[key] is not each
        }
        self._changed_at |= dict.fromkeys(owners, state.version)
        news, self._news = self._news, self._news.get_loop().create_future()
        news.set_result(None)
