"""Subscriptions and channels as a gatekeeper keeps them."""

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

from aiohttp import web

from tests.sidecar.fakes.answers import problem
from tests.sidecar.fakes.subscription import FakeSubscription

if TYPE_CHECKING:
    from tests.sidecar.fakes.gatekeeper import FakeGatekeeper


class FakeDefinitions:
    """The routes below /v1/subscriptions and /v1/channels."""

    def __init__(self, gatekeeper: "FakeGatekeeper") -> None:
        self._gatekeeper = gatekeeper
        self.version = 1
        self.channels: dict[str, dict[str, Any]] = {}
        self._changed = asyncio.Event()

    def add_routes(self, app: web.Application) -> None:
        app.router.add_route("*", "/v1/subscriptions", self._all)
        app.router.add_route("*", "/v1/subscriptions/{name}", self._one)
        app.router.add_post("/v1/subscriptions/{name}/{verb}", self._act)
        app.router.add_route("*", "/v1/channels", self._all_channels)
        app.router.add_route("*", "/v1/channels/{id}", self._channel)

    def touch(self, definition: dict[str, Any] | None = None) -> None:
        self.version += 1
        if definition is not None:
            definition["version"] = self.version
        self._changed.set()
        self._changed = asyncio.Event()

    async def _all(self, request: web.Request) -> web.Response:
        known = self._gatekeeper.subscriptions
        if request.method == "POST":
            return await self._create(await request.json())
        after = int(request.query.get("after", -1))
        if after >= self.version:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(int(request.query["wait_ms"]) / 1000):
                    await self._changed.wait()
        rows = [known[name].definition for name in sorted(known)]
        return web.json_response({"version": self.version, "subscriptions": rows})

    async def _create(self, wanted: dict[str, Any]) -> web.Response:
        gatekeeper, name = self._gatekeeper, wanted["name"]
        if wanted["topic"].startswith("forbidden."):
            return problem(403, "denied", "no", decision_id="d1", reason="rule")
        if name in gatekeeper.subscriptions:
            there = gatekeeper.subscriptions[name].definition
            differs = [each for each in wanted if there.get(each) != wanted[each]]
            if differs:
                return problem(409, "subscription_exists", f"{name} is another")
            return web.json_response(there)
        topic = gatekeeper.log.topic(wanted["topic"])
        low = {
            partition: gatekeeper._begin(wanted.get("from", "latest"), topic["name"], partition)
            for partition in range(topic["partitions"])
        }
        made = FakeSubscription(gatekeeper.log, {"created_us": self.version, **wanted}, low)
        gatekeeper.subscriptions[name] = made
        self.touch(made.definition)
        return web.json_response(made.definition, status=201)

    def _state(self, found: FakeSubscription) -> dict[str, Any]:
        topic = found.definition["topic"]
        ends = {each: found.log.ends.get((topic, each), 0) for each in found.low}
        return {
            **found.definition,
            "state": "active" if found.members else "idle",
            "members": [],
            "redelivered": 0,
            "expired": 0,
            "cursors": [
                {
                    "partition": each,
                    "low": low,
                    "acked": [],
                    "end_offset": ends[each],
                    "lag": ends[each] - low - len(found.acked[each]),
                    "in_flight": 0,
                }
                for each, low in found.low.items()
            ],
        }

    async def _one(self, request: web.Request) -> web.Response:
        known, name = self._gatekeeper.subscriptions, request.match_info["name"]
        if name not in known:
            return problem(404, "unknown_subscription", f"no {name}")
        found = known[name]
        if request.method == "DELETE":
            del known[name]
            self.touch()
            await found.say(type="end", code="subscription_deleted", detail="it was deleted")
            return web.Response(status=204)
        if request.method == "PATCH":
            if request.headers.get("If-Match") != f'"{found.definition["version"]}"':
                return problem(412, "subscription_changed", "it was changed meanwhile")
            found.definition |= await request.json()
            self.touch(found.definition)
        return web.json_response(self._state(found))

    async def _act(self, request: web.Request) -> web.Response:
        known, name = self._gatekeeper.subscriptions, request.match_info["name"]
        if name not in known:
            return problem(404, "unknown_subscription", f"no {name}")
        found, verb, said = known[name], request.match_info["verb"], await request.json()
        if verb in ("pause", "resume"):
            found.definition["paused"] = verb == "pause"
            self.touch(found.definition)
            await found.say(type="paused" if verb == "pause" else "resumed")
        elif verb == "seek":
            for partition in found.low:
                at = self._gatekeeper._begin(said["to"], found.definition["topic"], partition)
                found.low[partition], found.acked[partition] = at, set()
            if found.members:
                await found.assign_all()
        found.said.append({"type": verb, **said})
        return web.json_response(self._state(found))

    async def _all_channels(self, request: web.Request) -> web.Response:
        if request.method == "GET":
            rows = [self.channels[each] for each in sorted(self.channels)]
            return web.json_response({"version": self.version, "channels": rows})
        wanted = await request.json()
        return self._keep(wanted["id"], wanted, replace=False)

    async def _channel(self, request: web.Request) -> web.Response:
        ident = request.match_info["id"]
        if request.method == "PUT":
            return self._keep(ident, await request.json(), replace=True)
        if ident not in self.channels:
            return problem(404, "unknown_channel", f"no {ident}")
        if request.method == "DELETE":
            del self.channels[ident]
            return web.Response(status=204)
        return web.json_response(self.channels[ident])

    def _keep(self, ident: str, wanted: dict[str, Any], *, replace: bool) -> web.Response:
        there = self.channels.get(ident)
        made = {"id": ident, "name": ident, "path": "/", "tls": False, **wanted, "version": 1}
        if there is not None and not replace:
            if there == made:
                return web.json_response(there)
            return problem(409, "channel_exists", "it is another")
        self.channels[ident] = made
        return web.json_response(made, status=201 if there is None else 200)
