"""Registration for simple clients: `/register/publisher`, `/deregister/publisher`, `/register`."""

from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

import msgspec
from aiohttp import web

from log_format.errors import BadField
from log_format.topic import check_topic
from sidecar.api.api_types import DeregisterRequest, NoQuery, RegisterRequest, parse_query
from sidecar.api.app import json_response
from sidecar.api.http_body import read_body
from sidecar.delivery.reader import refusal_of, unreachable
from sidecar.errors import BadBody, Denied, NotRegistered, OverQuota
from sidecar.publish.registrations import NAME_BYTES_MAX, REGISTRATIONS_MAX, Registrations
from sidecar.uplink.gateway import Gateway, Unreachable

PUBLISHER_HEADER: Final = "Sidegate-Publisher"
BODY_BYTES_MAX: Final = 4 * 1024
T = TypeVar("T", RegisterRequest, DeregisterRequest)


class RegisterHandlers:
    """The handlers of registration. `required` makes every publish show one."""

    def __init__(
        self,
        registrations: Registrations,
        gateway: Gateway,
        *,
        required: bool,
        subscribers: Callable[[], Awaitable[tuple[list[dict[str, Any]], bool]]],
    ) -> None:
        self._registrations = registrations
        self._gateway = gateway
        self._required = required
        self._subscribers = subscribers

    async def register_publisher(self, request: web.Request) -> web.Response:
        """Ask the gatekeeper whether it would be allowed, and remember the publisher."""
        parse_query(request.query, NoQuery)
        wanted = _decoded(await read_body(request, BODY_BYTES_MAX), RegisterRequest)
        try:
            topic = check_topic(wanted.topic)
        except BadField as error:
            raise BadBody(str(error), members={"field": "topic"}) from error
        if not wanted.name or len(wanted.name.encode()) > NAME_BYTES_MAX:
            raise BadBody(f"name: must have 1 to {NAME_BYTES_MAX} bytes")
        if self._registrations.full:
            raise OverQuota(f"{REGISTRATIONS_MAX} publishers are registered; deregister some")
        await self._require_access(topic)
        row, fresh = self._registrations.add(topic, wanted.name)
        response = json_response(msgspec.structs.asdict(row))
        response.set_status(201 if fresh else 200)
        return response

    async def deregister_publisher(self, request: web.Request) -> web.Response:
        """Forget a publisher; the same again changes nothing."""
        parse_query(request.query, NoQuery)
        wanted = _decoded(await read_body(request, BODY_BYTES_MAX), DeregisterRequest)
        self._registrations.remove(wanted.publisher_id)
        return web.Response(status=204)

    async def list_registrations(self, request: web.Request) -> web.Response:
        """Everybody who is registered, as far as it is known."""
        parse_query(request.query, NoQuery)
        rows = [msgspec.structs.asdict(row) for row in self._registrations.list()]
        subscribers, complete = await self._subscribers()
        listed: dict[str, object] = {"publishers": rows, "subscribers": subscribers}
        return json_response(listed if complete else {**listed, "complete": False})

    def check(self, request: web.Request, topic: str) -> None:
        """Refuse a publish without a registration, where one is required."""
        if not self._required:
            return
        if not self._registrations.allows(request.headers.get(PUBLISHER_HEADER), topic):
            raise NotRegistered(
                f"{PUBLISHER_HEADER}: is missing or not registered for {topic!r}; POST "
                '/register/publisher {"topic","name"} and send the publisher_id in this header'
            )

    async def _require_access(self, topic: str) -> None:
        query = {"action": "publish", "topic": topic}
        try:
            answer = await self._gateway.ask("GET", "/v1/access", query=query)
        except Unreachable as error:
            raise unreachable(error) from error
        document = answer.document()
        if answer.status != 200 or not isinstance(document, dict):
            raise refusal_of(answer)
        if document.get("allowed") is not True:
            members = {name: document[name] for name in ("reason", "rule") if document.get(name)}
            raise Denied(str(document.get("detail", "the policy denies it")), members=members)


def _decoded(body: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadBody(f"body: {error}") from error
