"""The `/v1` wire in front of a fake log. It can be told to fail in every way that it may."""

import asyncio
import contextlib
import json
from typing import Any

from aiohttp import web

from log_format.frame import iter_frames
from tests.sidecar.fakes.answers import problem, refusal
from tests.sidecar.fakes.authority import APP_ID, GATEKEEPER_ID, Authority, Listening
from tests.sidecar.fakes.definitions import FakeDefinitions
from tests.sidecar.fakes.log import FakeLog
from tests.sidecar.fakes.proofs import FakeProofs
from tests.sidecar.fakes.subscription import FakeSubscription


class FakeGatekeeper:
    """The `/v1` wire in front of a FakeLog.

    `failures` are used up one for each append: "drop" appends and closes without an answer,
    "lose" closes before it appends, a number answers that status, a code refuses every frame.
    """

    def __init__(self, log: FakeLog, authority: Authority, spiffe_id: str = GATEKEEPER_ID) -> None:
        self.log = log
        self.failures: list[str | int] = []
        self.read_failures: list[web.Response] = []
        """Answers to the next reads, in place of frames."""
        self.core_down = False
        self.hang_topics: asyncio.Event | None = None
        self.hang: asyncio.Event | None = None
        self.requests: list[tuple[str, str]] = []
        self.appends: list[int] = []
        self.tokens: list[str] = []
        self.refused_tokens: set[str] = set()
        self.credits: list[int] = []
        self.unreadable: set[str] = set()
        self.subscriptions: dict[str, FakeSubscription] = {}
        self.definitions = FakeDefinitions(self)
        self._sockets: set[web.WebSocketResponse] = set()
        app = web.Application(client_max_size=64 * 1024 * 1024, middlewares=[self._admit])
        app.router.add_post("/v1/append", self._append)
        app.router.add_get("/v1/read", self._read)
        app.router.add_get("/v1/stream", self._stream)
        app.router.add_get("/v1/status", self._status)
        app.router.add_get("/v1/whoami", self._whoami)
        app.router.add_route("*", "/v1/topics", self._topics)
        app.router.add_route("*", "/v1/topics/{name}", self._topic)
        app.router.add_get("/v1/topics/{name}/offsets", self._offsets)
        app.router.add_get("/v1/access", self._access)
        self.definitions.add_routes(app)
        self.proofs = FakeProofs(log)
        self.proofs.add_routes(app)
        name = spiffe_id.rpartition("/")[2]
        context = authority.server_context(authority.issue(f"server-{name}", spiffe_id))
        self.listening = Listening(app, context)

    @web.middleware
    async def _admit(self, request: web.Request, handler: Any) -> Any:
        self.requests.append((request.method, request.path))
        token = request.headers.get("Authorization", "").removeprefix("Bearer ")
        self.tokens.append(token)
        if not token or token in self.refused_tokens:
            return problem(401, "unauthenticated", "the token is not taken")
        if self.core_down:
            return problem(503, "unavailable", "the core can't be reached")
        return await handler(request)

    async def _status(self, _: web.Request) -> web.Response:
        return web.json_response({"service": "core"})

    async def _whoami(self, _: web.Request) -> web.Response:
        return web.json_response({"principal": "app", "spiffe_id": APP_ID})

    async def _append(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        frames = list(iter_frames(body))
        self.appends.append(len(frames))
        if self.hang is not None:
            await self.hang.wait()
        failure = self.failures.pop(0) if self.failures else None
        if failure == "lose":
            return _cut(request)
        if isinstance(failure, int):
            return problem(failure, "failed", "as the test asked")
        results = []
        for frame in frames:
            topic = frame.envelope.producer.topic
            refused = failure if isinstance(failure, str) and failure != "drop" else None
            if topic.startswith("forbidden."):
                refused = "denied"
            if refused is not None:
                results.append(refusal(frame, refused))
            else:
                results.append(self.log.append(frame))
        async with self.log.appended:
            self.log.appended.notify_all()
        if failure == "drop":
            return _cut(request)
        return web.json_response({"results": results})

    async def _read(self, request: web.Request) -> web.Response:
        query = request.query
        key = (query["topic"], int(query["partition"]))
        if self.read_failures:
            return self.read_failures.pop(0)
        if key[0] not in self.log.topics:
            return problem(404, "unknown_topic", f"no topic {key[0]}")
        offset, size, chunks = int(query["offset"]), 0, []
        for base, whole in self.log.frames.get(key, ()):
            (frame,) = iter_frames(whole)
            if base + frame.envelope.producer.count > offset and size < int(query["max_bytes"]):
                chunks.append(whole)
                size += len(whole)
        return web.Response(body=b"".join(chunks), content_type="application/vnd.sidegate.frames")

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        self._sockets.add(socket)
        try:
            opening = json.loads((await socket.receive()).data)
            if "subscription" in opening:
                await self._member(socket, opening)
                return socket
            topic = opening["topic"]
            if topic.startswith("forbidden."):
                await socket.send_json(
                    {"type": "end", "code": "denied", "detail": "no", "decision_id": "d1"}
                )
                return socket
            count = self.log.topic(topic)["partitions"]
            partitions = opening["partitions"] or list(range(count))
            at = {each: self._begin(opening["from"], topic, each) for each in partitions}
            await socket.send_json(
                {
                    "type": "opened",
                    "topic": topic,
                    "partitions": [
                        {
                            "partition": each,
                            "offset": at[each],
                            "end_offset": max(at[each], self.log.ends.get((topic, each), 0)),
                        }
                        for each in partitions
                    ],
                }
            )
            await self._feed(socket, topic, at, opening["credit_bytes"])
        finally:
            self._sockets.discard(socket)
        return socket

    async def _member(self, socket: web.WebSocketResponse, opening: dict[str, Any]) -> None:
        name, create = opening["subscription"], opening["create"]
        if name not in self.subscriptions:
            if create is None:
                await socket.send_json(
                    {"type": "end", "code": "unknown_subscription", "detail": f"no {name}"}
                )
                return
            topic = self.log.topic(create["topic"])
            low = {
                partition: self._begin(create.get("from", "latest"), topic["name"], partition)
                for partition in range(topic["partitions"])
            }
            self.subscriptions[name] = FakeSubscription(self.log, {"name": name, **create}, low)
        await self.subscriptions[name].serve(socket, opening)

    def _begin(self, origin: Any, topic: str, partition: int) -> int:
        if origin == "earliest":
            return 0
        if origin == "latest":
            return self.log.ends.get((topic, partition), 0)
        if "offsets" in origin:
            return int(origin["offsets"].get(str(partition), 0))
        return 0

    async def _feed(
        self, socket: web.WebSocketResponse, topic: str, at: dict[int, int], credit: int
    ) -> None:
        left = [credit]

        async def listen() -> None:
            async for message in socket:
                said = json.loads(message.data)
                if said["type"] == "credit":
                    left[0] += said["bytes"]
                    self.credits.append(said["bytes"])
                elif said["type"] == "token":
                    self.tokens.append(said["token"])
                async with self.log.appended:
                    self.log.appended.notify_all()

        listener = asyncio.create_task(listen())
        try:
            while not listener.done():
                sent = False
                for partition in list(at):
                    for base, whole in self.log.frames.get((topic, partition), ()):
                        (frame,) = iter_frames(whole)
                        end = base + frame.envelope.producer.count
                        if end > at[partition] and left[0] > 0:
                            await socket.send_bytes(whole)
                            at[partition] = end
                            left[0] -= len(whole)
                            sent = True
                if not sent:
                    async with self.log.appended:
                        with contextlib.suppress(TimeoutError):
                            async with asyncio.timeout(0.2):
                                await self.log.appended.wait()
                                continue
                    await socket.send_json({"type": "heartbeat", "end_offsets": {}})
        except ConnectionError:
            return
        finally:
            listener.cancel()
            await asyncio.gather(listener, return_exceptions=True)

    async def say(self, **control: Any) -> None:
        """Send a control message on every open stream; some may be going."""
        for socket in list(self._sockets):
            with contextlib.suppress(ConnectionError):
                await socket.send_json(control)

    async def cut_streams(self) -> None:
        """Break every open stream, without a word."""
        for socket in list(self._sockets):
            transport = socket._req.transport if socket._req is not None else None
            if transport is not None:
                transport.abort()

    async def _topics(self, request: web.Request) -> web.Response:
        if request.method == "GET":
            return web.json_response({"topics": list(self.log.topics.values())})
        wanted = await request.json()
        known = wanted["name"] in self.log.topics
        if known and self.log.topics[wanted["name"]] != wanted:
            return problem(409, "topic_exists", "it exists with other settings")
        self.log.topics[wanted["name"]] = wanted
        return web.json_response(wanted, status=200 if known else 201)

    async def _access(self, request: web.Request) -> web.Response:
        allowed = not request.query["topic"].startswith("forbidden.")
        reason = None if allowed else "closed"
        return web.json_response({"allowed": allowed, "reason": reason, "detail": "as told"})

    async def _offsets(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        if name not in self.log.topics:
            return problem(404, "unknown_topic", f"no topic {name}")
        if name in self.unreadable:
            return problem(403, "denied", "you may not read it")
        rows = [
            {
                "partition": each,
                "start_offset": 0,
                "end_offset": self.log.ends.get((name, each), 0),
                "offset": 0,
            }
            for each in range(self.log.topics[name]["partitions"])
        ]
        return web.json_response({"partitions": rows})

    async def _topic(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        if self.hang_topics is not None:
            await self.hang_topics.wait()
        if name.startswith("forbidden."):
            return problem(403, "denied", "no", decision_id="d1", reason="rule")
        if "create" in request.query:
            self.log.topic(name)
        if name not in self.log.topics:
            return problem(404, "unknown_topic", f"no topic {name}")
        if request.method == "DELETE":
            del self.log.topics[name]
            return web.Response(status=204)
        if request.method == "PATCH":
            self.log.topics[name] |= await request.json()
        return web.json_response(self.log.topics[name])


def _cut(request: web.Request) -> web.StreamResponse:
    assert request.transport is not None
    request.transport.abort()
    return web.Response()
