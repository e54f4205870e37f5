"""`/v1/subscriptions`: list, create, describe, alter, delete, and move one by hand."""

import asyncio
from typing import Final

from aiohttp import web

from core_log.api.member_messages import (
    DELAY_MS_MAX,
    attempts_json,
    take_offsets,
    take_partition,
    take_ranges,
)
from core_log.api.query import BadQuery, Query
from core_log.api.reading import WAIT_MS_MAX
from core_log.api.request_body import read_json
from core_log.api.stream_messages import take_start
from core_log.api.wire import TOPIC_HEADER, cause_of, if_version, json_response
from core_log.control.json_fields import Fields
from core_log.control.names import is_name
from core_log.control.waiting import first_of
from core_log.subscriptions.delivery import Delivery
from core_log.subscriptions.fcfs import Fcfs
from core_log.subscriptions.ordered import Ordered
from core_log.subscriptions.subscribing import Subscribing
from core_log.subscriptions.subscription_json import (
    parse_alteration,
    parse_wanted,
    subscription_json,
)
from core_log.subscriptions.subscriptions import (
    Alteration,
    BadSubscription,
    Subscription,
    TopicMismatch,
)
from log_format.limits import NAME_BYTES_MAX

ACKED_SHOWN_MAX: Final = 100
"""Acknowledged ranges of a partition that a description shows: enough to see what is stuck."""


class SubscriptionRoutes:
    """The handlers of `/v1/subscriptions`. `draining` ends every wait."""

    def __init__(self, subscribing: Subscribing, draining: asyncio.Event) -> None:
        self._subscribing = subscribing
        self._draining = draining

    def add_to(self, app: web.Application) -> None:
        """Register the routes."""
        app.router.add_get("/v1/subscriptions", self.list)
        app.router.add_post("/v1/subscriptions", self.create)
        one = "/v1/subscriptions/{name}"
        app.router.add_get(one, self.describe)
        app.router.add_patch(one, self.alter)
        app.router.add_delete(one, self.delete)
        app.router.add_post(f"{one}/pause", self.pause)
        app.router.add_post(f"{one}/resume", self.resume)
        app.router.add_post(f"{one}/seek", self.seek)
        app.router.add_post(f"{one}/ack", self.ack)
        app.router.add_post(f"{one}/nack", self.nack)

    async def list(self, request: web.Request) -> web.Response:
        """The owner's subscriptions; with `after`, once one of them has changed."""
        query = Query(request.query.items())
        owner = owner_of(request, query)
        after = query.integer("after", -1)
        wait_s = query.integer("wait_ms", 0, most=WAIT_MS_MAX) / 1000
        query.finish()
        if wait_s and after >= 0:
            await first_of(
                self._subscribing.news(owner, after), self._draining.wait(), timeout_s=wait_s
            )
        version, mine = self._subscribing.of_owner(owner)
        shown = [subscription_json(each) for each in mine]
        return json_response({"version": version, "subscriptions": shown})

    async def create(self, request: web.Request) -> web.Response:
        """201 for a new one, 200 for the same again."""
        wanted, named = parse_wanted(await read_json(request))
        query = Query(request.query.items())
        owner = _owner(request, named or query.text("owner"))
        query.finish()
        if request.headers.get(TOPIC_HEADER, wanted.topic) != wanted.topic:
            raise TopicMismatch(wanted.name, wanted.topic)
        made, new = await self._subscribing.create(wanted, owner, cause_of(request))
        return _answer(made, status=201 if new else 200)

    async def describe(self, request: web.Request) -> web.Response:
        """One subscription and what has become of it."""
        return self._described(self._one(request))

    async def alter(self, request: web.Request) -> web.Response:
        """Change some fields. With `If-Match: "version"`, only that version."""
        return await self._alter(request, parse_alteration(await read_json(request)))

    async def delete(self, request: web.Request) -> web.Response:
        """End a subscription."""
        owner, name, topic = self._named(request)
        await self._subscribing.delete(
            owner, name, topic=topic, if_version=if_version(request), cause=cause_of(request)
        )
        return web.Response(status=204)

    async def pause(self, request: web.Request) -> web.Response:
        """Give nothing out."""
        return await self._alter(request, Alteration(paused=True))

    async def resume(self, request: web.Request) -> web.Response:
        """Give out again."""
        return await self._alter(request, Alteration(paused=False))

    async def seek(self, request: web.Request) -> web.Response:
        """Begin anew at another place."""
        fields = Fields(await read_json(request), BadSubscription, what="a seek")
        if fields.raw("to") is None:
            fields.problem("to", "is missing")
        to = take_start(fields, "to")
        fields.finish()
        subscription = self._one(request)
        await self._subscribing.seek(subscription, to)
        return self._described(self._one(request))

    async def ack(self, request: web.Request) -> web.Response:
        """Acknowledge, whoever has the messages."""
        fields = Fields(await read_json(request), BadSubscription, what="an acknowledgement")
        partition, ranges = take_partition(fields), take_ranges(fields)
        fields.finish()
        await self._subscribing.ack(self._one(request), partition, ranges)
        return self._described(self._one(request))

    async def nack(self, request: web.Request) -> web.Response:
        """Give out again, whoever has the messages."""
        fields = Fields(await read_json(request), BadSubscription, what="a nack")
        partition, offsets = take_partition(fields), take_offsets(fields)
        delay_ms = fields.integer("delay_ms", 0, least=0, most=DELAY_MS_MAX)
        fields.finish()
        await self._subscribing.nack(self._one(request), partition, offsets, delay_ms / 1000)
        return self._described(self._one(request))

    async def _alter(self, request: web.Request, change: Alteration) -> web.Response:
        owner, name, topic = self._named(request)
        altered = await self._subscribing.alter(
            owner,
            name,
            change,
            if_version=if_version(request),
            topic=topic,
            cause=cause_of(request),
        )
        return _answer(altered)

    def _one(self, request: web.Request) -> Subscription:
        owner, name, topic = self._named(request)
        return self._subscribing.get(owner, name, topic=topic)

    def _named(self, request: web.Request) -> tuple[str, str, str | None]:
        """Whose, which, and on which topic it has to be."""
        query = Query(request.query.items())
        owner = owner_of(request, query)
        query.finish()
        name = request.match_info["name"]
        if not is_name(name):
            raise BadSubscription("name: is not a subscription's name")
        return owner, name, request.headers.get(TOPIC_HEADER)

    def _described(self, subscription: Subscription) -> web.Response:
        delivery = self._subscribing.delivery(subscription)
        shown = {**subscription_json(subscription), **state_json(delivery)}
        return json_response(shown, headers={"ETag": f'"{subscription.version}"'})


def state_json(delivery: Delivery) -> dict[str, object]:
    """What has become of a subscription: members, cursors, totals."""
    group = delivery.group
    state = "paused" if delivery.subscription.paused else "active" if delivery.streams else "idle"
    cursors = []
    for partition, each in enumerate(group.partitions):
        end = delivery.log.extent(partition).end
        cursor = each.cursor
        cursors.append(
            {
                "partition": partition,
                "low": cursor.low,
                "acked": cursor.acked[:ACKED_SHOWN_MAX],
                "end_offset": end,
                "lag": cursor.open_below(end),
                "in_flight": each.in_flight,
                "attempts": attempts_json(cursor.attempts),
            }
        )
    return {
        "state": state,
        "members": [
            {
                "member": member.name,
                "since_us": member.since_us,
                "partitions": _partitions_of(delivery, member.session),
                "in_flight": member.in_flight,
            }
            for member in group.members
        ],
        "cursors": cursors,
        "redelivered": sum(each.cursor.redelivered for each in group.partitions),
        "expired": sum(each.cursor.expired for each in group.partitions),
    }


def _partitions_of(delivery: Delivery, session: int) -> list[int]:
    group = delivery.group
    if isinstance(group, Ordered):
        return [number for number, each in enumerate(group.partitions) if each.holder == session]
    if isinstance(group, Fcfs):
        held = (each.partition for each in group.leases.values() if each.session == session)
        return sorted(set(held))
    return []


def owner_of(request: web.Request, query: Query) -> str:
    """Whose subscriptions a request is about."""
    return _owner(request, query.text("owner"))


def _owner(request: web.Request, named: str | None) -> str:
    owner = named or cause_of(request).principal
    if owner is None:
        raise BadQuery("owner: is missing, and nobody's name came with the request")
    if len(owner.encode()) > NAME_BYTES_MAX:
        raise BadQuery(f"owner: has more than {NAME_BYTES_MAX} bytes")
    return owner


def _answer(subscription: Subscription, *, status: int = 200) -> web.Response:
    headers = {"ETag": f'"{subscription.version}"'}
    return json_response(subscription_json(subscription), status=status, headers=headers)
