"""Channels over HTTP: named destinations that pushes may use."""

from typing import Final

import msgspec
from aiohttp import web

from sidecar.api.api_types import NoQuery, parse_query
from sidecar.api.app import json_response
from sidecar.api.http_body import read_body
from sidecar.errors import BadRequest
from sidecar.push.destinations import Destinations, target_of_channel
from sidecar.push.subscription_types import ChannelChange, ChannelRequest, decode_request
from sidecar.push.subscription_wire import Document, SubscriptionWire, check_name
from sidecar.push.webhook_client import WebhookClient

BODY_BYTES_MAX: Final = 16 * 1024
"""A path may have 2 KiB."""


class ChannelHandlers:
    """The handlers below /channels."""

    def __init__(
        self, wire: SubscriptionWire, destinations: Destinations, client: WebhookClient
    ) -> None:
        self._wire = wire
        self._destinations = destinations
        self._client = client

    async def list_channels(self, request: web.Request) -> web.Response:
        """All of the app's own."""
        parse_query(request.query, NoQuery)
        return json_response(await self._wire.channels())

    async def create_channel(self, request: web.Request) -> web.Response:
        """Create one; the same again changes nothing."""
        parse_query(request.query, NoQuery)
        wanted = decode_request(await read_body(request, BODY_BYTES_MAX), ChannelRequest)
        check_name(wanted.id, "id")
        document = await self._checked(wanted)
        self._destinations.forget(wanted.id)
        status, channel = await self._wire.create_channel(document)
        return _answer(channel, status)

    async def describe_channel(self, request: web.Request) -> web.Response:
        """One of them."""
        parse_query(request.query, NoQuery)
        return json_response(await self._wire.channel(request.match_info["channel"]))

    async def put_channel(self, request: web.Request) -> web.Response:
        """Put one in the place of what was there."""
        parse_query(request.query, NoQuery)
        ident = check_name(request.match_info["channel"], "channel")
        wanted = decode_request(await read_body(request, BODY_BYTES_MAX), ChannelChange)
        if wanted.id not in (None, ident):
            raise BadRequest("id", f"is not {ident!r}, the id of the path; leave it out")
        document = await self._checked(wanted)
        document.pop("id", None)
        self._destinations.forget(ident)
        status, channel = await self._wire.put_channel(ident, document)
        return _answer(channel, status)

    async def delete_channel(self, request: web.Request) -> web.Response:
        """Delete one."""
        parse_query(request.query, NoQuery)
        self._destinations.forget(request.match_info["channel"])
        await self._wire.delete_channel(request.match_info["channel"])
        return web.Response(status=204)

    async def _checked(self, wanted: ChannelRequest | ChannelChange) -> Document:
        document: Document = msgspec.to_builtins(wanted)
        await self._client.check(target_of_channel(document))
        return document


def _answer(document: object, status: int) -> web.Response:
    response = json_response(document)
    response.set_status(status)
    return response
