"""One request on its way through a handler, and the plain answers that handlers give."""

from dataclasses import dataclass
from typing import Any

import orjson
from aiohttp import web

from gatekeeper.api.gate import Caller
from gatekeeper.api.routes import Route
from gatekeeper.audit.decisions import Ruling
from gatekeeper.core.upstream import RETRY_AFTER_S, Answer, OnBehalf
from gatekeeper.errors import CoreUnavailable


@dataclass(frozen=True, slots=True)
class Call:
    """A request whose caller is proven and whose query holds known parameters only.

    `name` is the topic in the path, as sent; empty where the route has none.
    """

    request: web.BaseRequest
    route: Route
    caller: Caller
    name: str
    query: dict[str, str]

    def behalf(self, ruling: Ruling | None = None) -> OnBehalf:
        """For whom the core is asked."""
        return behalf_of(self.caller, ruling)


def behalf_of(caller: Caller, ruling: Ruling | None = None) -> OnBehalf:
    """For whom the core is asked, after a ruling about it."""
    decision = "" if ruling is None else ruling.id_text
    return OnBehalf(caller.principal, decision, caller.request_id)


def json_answer(value: Any) -> web.Response:
    """A value as JSON."""
    return web.Response(body=orjson.dumps(value), content_type="application/json")


def passed_on(answer: Answer) -> web.Response:
    """The core's own answer, with those of its headers that callers may see."""
    return web.Response(status=answer.status, headers=answer.headers, body=answer.body)


def core_object(answer: Answer) -> dict[str, Any]:
    """The core's answer as a JSON object, or CoreUnavailable: what it means is unknown then."""
    try:
        value = orjson.loads(answer.body)
    except ValueError as error:
        raise CoreUnavailable("the core's answer can't be read", RETRY_AFTER_S) from error
    if not isinstance(value, dict):
        raise CoreUnavailable("the core's answer can't be read", RETRY_AFTER_S)
    return value
