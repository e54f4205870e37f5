"""`/v1/channels`: list, create, describe, replace, delete."""

from aiohttp import web

from core_log.api.query import BadQuery, Query
from core_log.api.request_body import read_json
from core_log.api.wire import cause_of, if_version, json_response
from core_log.control import channels
from core_log.control.channels import (
    BadChannel,
    Channel,
    UnknownChannel,
    channel_json,
    parse_channel,
)
from core_log.control.control import ControlLog
from core_log.control.control_state import ChannelDeleted, ChannelPut, ControlState, Fact
from core_log.control.names import is_name


class ChannelRoutes:
    """The handlers of `/v1/channels`. Each owner sees its own."""

    def __init__(self, control: ControlLog) -> None:
        self._control = control

    def add_to(self, app: web.Application) -> None:
        """Register the routes."""
        app.router.add_get("/v1/channels", self.list)
        app.router.add_post("/v1/channels", self.create)
        app.router.add_get("/v1/channels/{id}", self.describe)
        app.router.add_put("/v1/channels/{id}", self.replace)
        app.router.add_delete("/v1/channels/{id}", self.delete)

    async def list(self, request: web.Request) -> web.Response:
        """All channels of the owner, in order of id."""
        Query(request.query.items()).finish()
        owner, state = _owner(request), self._control.state
        mine = sorted(key for key in state.channels if key[0] == owner)
        shown = [channel_json(state.channels[key]) for key in mine]
        return json_response({"version": state.version, "channels": shown})

    async def create(self, request: web.Request) -> web.Response:
        """201 for a new one, 200 for the same again."""
        wanted = parse_channel(await read_json(request), _owner(request))
        return await self._put(request, wanted, replaces=False)

    async def describe(self, request: web.Request) -> web.Response:
        """One channel."""
        return _answer(self._get(_owner(request), _id(request)))

    async def replace(self, request: web.Request) -> web.Response:
        """Create a channel, or put another in its place."""
        owner, channel = _owner(request), _id(request)
        wanted = parse_channel(await read_json(request), owner, channel=channel)
        return await self._put(request, wanted, replaces=True)

    async def delete(self, request: web.Request) -> web.Response:
        """End a channel."""
        owner, channel = _owner(request), _id(request)
        version = if_version(request)

        def decide(_state: ControlState) -> list[Fact]:
            existing = self._get(owner, channel)
            channels.check_version(existing, existing, version)
            return [ChannelDeleted(owner, channel)]

        await self._control.change(decide, cause_of(request))
        return web.Response(status=204)

    async def _put(self, request: web.Request, wanted: Channel, *, replaces: bool) -> web.Response:
        version = if_version(request)
        new: list[bool] = []

        def decide(state: ControlState) -> list[Fact]:
            new.append(wanted.key not in state.channels)
            made = channels.put(
                state.channels,
                wanted,
                replaces=replaces,
                if_version=version,
                version=state.version + 1,
            )
            return [] if made is None else [ChannelPut(made)]

        await self._control.change(decide, cause_of(request))
        return _answer(self._get(*wanted.key), status=201 if new[0] else 200)

    def _get(self, owner: str, channel: str) -> Channel:
        found = self._control.state.channels.get((owner, channel))
        if found is None:
            raise UnknownChannel(owner, channel)
        return found


def _owner(request: web.Request) -> str:
    owner = cause_of(request).principal
    if owner is None:
        raise BadQuery("owner: nobody's name came with the request")
    return owner


def _id(request: web.Request) -> str:
    Query(request.query.items()).finish()
    channel = request.match_info["id"]
    if not is_name(channel):
        raise BadChannel("id: is not a channel's id")
    return channel


def _answer(channel: Channel, *, status: int = 200) -> web.Response:
    headers = {"ETag": f'"{channel.version}"'}
    return json_response(channel_json(channel), status=status, headers=headers)
