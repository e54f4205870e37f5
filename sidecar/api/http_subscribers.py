"""Webhooks for simple clients: `/register/subscriber` and `/deregister/subscriber`.

In the style of the Observer pattern: register a URL for a topic, and each message that is
published from then on is sent to it once. A registration is a push subscription whose name is
made from what was registered, so that registering twice is registering once.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

from aiohttp import web

from sidecar.api.api_types import NoQuery, parse_query
from sidecar.api.app import json_response
from sidecar.api.http_body import read_body
from sidecar.errors import BadRequest, UplinkDown
from sidecar.push.subscription_desk import SubscriptionDesk
from sidecar.push.subscription_types import SubscriberGone, SubscriberRequest, decode_request
from sidecar.push.subscription_wire import Document, SubscriptionWire, check_name

BODY_BYTES_MAX: Final = 8 * 1024
"""A URL may have 2 KiB."""


class SubscriberHandlers:
    """The handlers of registered webhooks. `known` has the definitions that this sidecar was told
    of last."""

    def __init__(
        self,
        wire: SubscriptionWire,
        desk: SubscriptionDesk,
        known: Callable[[], Sequence[Document]],
    ) -> None:
        self._wire = wire
        self._desk = desk
        self._known = known

    async def register_subscriber(self, request: web.Request) -> web.Response:
        """Register a webhook."""
        parse_query(request.query, NoQuery)
        wanted = decode_request(await read_body(request, BODY_BYTES_MAX), SubscriberRequest)
        status, definition = await self._desk.register(wanted)
        response = json_response(subscriber(definition))
        response.set_status(status)
        return response

    async def deregister_subscriber(self, request: web.Request) -> web.Response:
        """Forget a webhook."""
        parse_query(request.query, NoQuery)
        wanted = decode_request(await read_body(request, BODY_BYTES_MAX), SubscriberGone)
        name = wanted.subscriber_id
        if name is None:
            if wanted.topic is None or wanted.url is None:
                raise BadRequest("subscriber_id", "give it, or topic and url and method")
            name = self._desk.name_of(wanted.topic, wanted.url, wanted.method)
        await self._desk.deregister(check_name(name, "subscriber_id"))
        return web.Response(status=204)

    async def registered(self) -> tuple[list[dict[str, Any]], bool]:
        """All of them, for `GET /register`; without a gatekeeper those that this sidecar knows
        of, and False."""
        found: Sequence[Document]
        try:
            found, complete = (await self._wire.list())["subscriptions"], True
        except UplinkDown:
            found, complete = self._known(), False
        rows = [
            subscriber(each) for each in found if (each.get("settings") or {}).get("registered")
        ]
        return rows, complete


def subscriber(definition: Document) -> dict[str, Any]:
    """A registration as it is shown."""
    push = definition["settings"]["push"]
    return {
        "subscriber_id": definition["name"],
        "topic": definition["topic"],
        "url": push["url"],
        "method": push.get("method", "POST"),
    }
