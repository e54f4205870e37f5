"""/v1/channels: each principal's own. There is nothing to decide: nobody can name another's."""

import orjson
from aiohttp import web

from gatekeeper.api.call import Call, passed_on
from gatekeeper.api.dispatch import Handler
from gatekeeper.api.intake import Intake
from gatekeeper.api.parameters import json_object
from gatekeeper.api.subscriptions import subscription_name
from gatekeeper.api.topics import version_wanted
from gatekeeper.core.upstream import CoreClient


class Channels:
    """The handlers of channels. Lives in one event loop."""

    def __init__(self, *, core: CoreClient, intake: Intake, json_bytes_max: int) -> None:
        self._core = core
        self._intake = intake
        self._json_bytes_max = json_bytes_max

    def handlers(self) -> dict[str, Handler]:
        """The handler of each of their routes."""
        return {
            "list_channels": self.list_channels,
            "create_channel": self.create_channel,
            "describe_channel": self.describe_channel,
            "replace_channel": self.replace_channel,
            "delete_channel": self.delete_channel,
        }

    async def list_channels(self, call: Call) -> web.StreamResponse:
        """All channels of the caller."""
        return await self._pass(call, "/v1/channels")

    async def create_channel(self, call: Call) -> web.StreamResponse:
        """Create a channel."""
        return await self._pass(call, "/v1/channels", body=True)

    async def describe_channel(self, call: Call) -> web.StreamResponse:
        """One channel."""
        return await self._pass(call, self._one(call))

    async def replace_channel(self, call: Call) -> web.StreamResponse:
        """Create a channel, or put another in its place."""
        return await self._pass(call, self._one(call), body=True)

    async def delete_channel(self, call: Call) -> web.StreamResponse:
        """Delete a channel."""
        return await self._pass(call, self._one(call))

    def _one(self, call: Call) -> str:
        return f"/v1/channels/{subscription_name(call.name)}"

    async def _pass(self, call: Call, path: str, *, body: bool = False) -> web.Response:
        described = None
        if body:
            with await self._intake.body(call.request, self._json_bytes_max) as data:
                described = orjson.dumps(json_object(data))
        return passed_on(
            await self._core.ask(
                call.route.method,
                path,
                call.behalf(),
                body=described,
                if_match=version_wanted(call),
            )
        )
