"""Subscriptions over HTTP: create, list, describe, alter, delete, and move by hand."""

import time
from typing import Final, TypeVar

import msgspec
from aiohttp import web

from sidecar.api.api_types import NoQuery, parse_query
from sidecar.api.app import json_response
from sidecar.api.http_body import read_body
from sidecar.delivery.member_registry import MemberRegistry
from sidecar.push.delivery_view import delivery_view
from sidecar.push.pushes import Pushes
from sidecar.push.reruns import Reruns, Started
from sidecar.push.subscription_desk import SubscriptionDesk
from sidecar.push.subscription_types import (
    AckRequest,
    NackRequest,
    OwnerQuery,
    RedriveRequest,
    ReplayRequest,
    SeekRequest,
    SubscriptionChange,
    SubscriptionRequest,
    decode_request,
    rendered,
    wire_place,
)
from sidecar.push.subscription_wire import Document, SubscriptionWire, check_name

BODY_BYTES_MAX: Final = 64 * 1024
"""A definition may have 32 KiB of settings; thousands of offsets fit as well."""
T = TypeVar("T", bound=msgspec.Struct)


class SubscriptionHandlers:
    """The handlers below /subscriptions."""

    def __init__(
        self,
        wire: SubscriptionWire,
        desk: SubscriptionDesk,
        reruns: Reruns,
        pushes: Pushes,
        members: MemberRegistry,
    ) -> None:
        self._wire = wire
        self._desk = desk
        self._reruns = reruns
        self._pushes = pushes
        self._members = members

    async def create_subscription(self, request: web.Request) -> web.Response:
        """Create one; the same again changes nothing."""
        parse_query(request.query, NoQuery)
        wanted = await _body(request, SubscriptionRequest)
        status, definition = await self._desk.create(wanted)
        return _answer(rendered(definition), status)

    async def list_subscriptions(self, request: web.Request) -> web.Response:
        """All of the owner's."""
        owner = parse_query(request.query, OwnerQuery).owner
        found = await self._wire.list(owner)
        rows = [rendered(each) for each in found["subscriptions"]]
        return _answer({"version": found["version"], "subscriptions": rows})

    async def describe_subscription(self, request: web.Request) -> web.Response:
        """One, and where it is stuck if it is."""
        name, owner = _named(request)
        return self._state(await self._wire.get(name, owner))

    async def alter_subscription(self, request: web.Request) -> web.Response:
        """Change what is given."""
        name, owner = _named(request)
        wanted = await _body(request, SubscriptionChange)
        return _answer(rendered(await self._desk.alter(name, wanted, owner)))

    async def delete_subscription(self, request: web.Request) -> web.Response:
        """Delete one, and its reruns."""
        name, owner = _named(request)
        await self._reruns.delete(name, owner)
        return web.Response(status=204)

    async def pause_subscription(self, request: web.Request) -> web.Response:
        """Give nothing out until it is resumed."""
        name, owner = _named(request)
        return _answer(rendered(await self._wire.act(name, "pause", None, owner)))

    async def resume_subscription(self, request: web.Request) -> web.Response:
        """Go on."""
        name, owner = _named(request)
        return _answer(rendered(await self._wire.act(name, "resume", None, owner)))

    async def seek_subscription(self, request: web.Request) -> web.Response:
        """Go on elsewhere."""
        name, owner = _named(request)
        wanted = await _body(request, SeekRequest)
        place = wire_place(wanted.to, "to", wanted.partition)
        return self._state(await self._wire.act(name, "seek", {"to": place}, owner))

    async def ack_subscription(self, request: web.Request) -> web.Response:
        """Count messages as done."""
        name, owner = _named(request)
        wanted = await _body(request, AckRequest)
        ranges = sorted({*wanted.ranges, *((offset, offset) for offset in wanted.offsets)})
        self._members.ack(owner, name, wanted.partition, ranges)
        document: Document = {"partition": wanted.partition, "ranges": ranges}
        return self._state(await self._wire.act(name, "ack", document, owner))

    async def nack_subscription(self, request: web.Request) -> web.Response:
        """Have messages delivered once more."""
        name, owner = _named(request)
        wanted = await _body(request, NackRequest)
        document: Document = msgspec.to_builtins(wanted)
        # A stream of this sidecar that has the message in hand gives it back by itself.
        left = self._members.nack(owner, name, wanted.partition, wanted.offsets, wanted.delay_ms)
        if not left:
            return self._state(await self._wire.get(name, owner))
        document["offsets"] = left
        return self._state(await self._wire.act(name, "nack", document, owner))

    async def redrive_subscription(self, request: web.Request) -> web.Response:
        """Put its dead letters back."""
        name, owner = _named(request)
        wanted = await _body(request, RedriveRequest)
        everything = wanted.start == "earliest"
        return _started(await self._reruns.redrive(name, everything=everything, owner=owner))

    async def replay_subscription(self, request: web.Request) -> web.Response:
        """Deliver a range again, to it alone."""
        name, owner = _named(request)
        wanted = await _body(request, ReplayRequest)
        return _started(await self._reruns.replay(name, wanted, owner))

    def _state(self, found: Document) -> web.Response:
        shown = rendered(found, state=True)
        shown["delivery"] = None
        if found.get("push"):
            running = self._pushes.running.get(found["name"])
            if running is not None and running.plan.owner != found["owner"]:
                running = None
            shown["delivery"] = delivery_view(running, time.monotonic(), time.time_ns() // 1000)
        return _answer(shown)


def _named(request: web.Request) -> tuple[str, str | None]:
    owner = parse_query(request.query, OwnerQuery).owner
    return check_name(request.match_info["subscription"], "subscription"), owner


async def _body(request: web.Request, kind: type[T]) -> T:
    return decode_request(await read_body(request, BODY_BYTES_MAX), kind)


def _answer(document: object, status: int = 200) -> web.Response:
    response = json_response(document)
    response.set_status(status)
    return response


def _started(started: Started) -> web.Response:
    document = {
        "subscription": started.subscription,
        "topic": started.topic,
        "messages_max": started.messages_max,
    }
    return _answer(document, 201 if started.fresh else 200)
