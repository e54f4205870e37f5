"""Topics over HTTP: what the app asks is passed on to a gatekeeper, and its answer back."""

from typing import Final, TypeVar

import msgspec
from aiohttp import web

from sidecar.api.api_types import NoQuery, TopicChange, TopicRequest, parse_query
from sidecar.api.http_body import any_topic, read_body
from sidecar.delivery.reader import refusal_of, unreachable
from sidecar.errors import BadBody
from sidecar.uplink.directory import Directory
from sidecar.uplink.gateway import Answer, Gateway, Unreachable

BODY_BYTES_MAX: Final = 64 * 1024
"""A topic's description: a few hundred bytes in practice."""
T = TypeVar("T", TopicRequest, TopicChange)


class TopicHandlers:
    """The handlers around topics."""

    def __init__(self, gateway: Gateway, directory: Directory) -> None:
        self._gateway = gateway
        self._directory = directory

    async def list_topics(self, request: web.Request) -> web.Response:
        """All that the app may see."""
        parse_query(request.query, NoQuery)
        return await self._pass_on("GET", "/v1/topics")

    async def create_topic(self, request: web.Request) -> web.Response:
        """Create one."""
        parse_query(request.query, NoQuery)
        body = await read_body(request, BODY_BYTES_MAX)
        wanted = _decode(body, TopicRequest)
        self._directory.forget(wanted.name)
        return await self._pass_on("POST", "/v1/topics", body)

    async def describe_topic(self, request: web.Request) -> web.Response:
        """Describe one."""
        parse_query(request.query, NoQuery)
        return await self._pass_on("GET", f"/v1/topics/{any_topic(request)}")

    async def alter_topic(self, request: web.Request) -> web.Response:
        """Change one."""
        parse_query(request.query, NoQuery)
        body = await read_body(request, BODY_BYTES_MAX)
        _decode(body, TopicChange)
        self._directory.forget(any_topic(request))
        return await self._pass_on("PATCH", f"/v1/topics/{any_topic(request)}", body)

    async def delete_topic(self, request: web.Request) -> web.Response:
        """Delete one."""
        parse_query(request.query, NoQuery)
        self._directory.forget(any_topic(request))
        return await self._pass_on("DELETE", f"/v1/topics/{any_topic(request)}")

    async def _pass_on(self, method: str, path: str, body: bytes | None = None) -> web.Response:
        try:
            answer = await self._gateway.ask(method, path, body=None if body is None else [body])
        except Unreachable as error:
            raise unreachable(error) from error
        return passed_on(answer)


def passed_on(answer: Answer) -> web.Response:
    """The gatekeeper's answer for the app: as it is, unless it speaks of the gatekeeper itself."""
    if answer.status in (401, 403, 404, 429) or answer.status >= 500:
        raise refusal_of(answer)
    content_type = answer.headers.get("content-type", "application/json").partition(";")[0]
    return web.Response(status=answer.status, body=answer.body, content_type=content_type)


def _decode(body: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadBody(f"body: {error}") from error
