"""/v1/topics: what callers may see of topics, and change."""

import re
from typing import Any, Final

import orjson
from aiohttp import web

from gatekeeper.api.call import Call, core_object, json_answer, passed_on
from gatekeeper.api.gate import Gate
from gatekeeper.api.intake import Intake
from gatekeeper.api.parameters import json_object, topic_name, whole_number
from gatekeeper.api.routes import Needs, questions_for
from gatekeeper.core.upstream import RETRY_AFTER_S, CoreClient
from gatekeeper.errors import BadRequest, CoreUnavailable

_VERSION: Final = re.compile(r'"[0-9]{1,16}"')


class Topics:
    """The handlers of topics. Lives in one event loop."""

    def __init__(self, *, gate: Gate, core: CoreClient, intake: Intake, json_bytes_max: int):
        self._gate = gate
        self._core = core
        self._intake = intake
        self._json_bytes_max = json_bytes_max

    async def list_topics(self, call: Call) -> web.StreamResponse:
        """The topics on which the caller may do anything."""
        answer = await self._core.ask("GET", "/v1/topics", call.behalf())
        if answer.status != 200:
            return passed_on(answer)
        listed = core_object(answer)
        try:
            listed["topics"] = [
                topic
                for topic in listed["topics"]
                if self._gate.may_any(call.caller, topic["name"])
            ]
        except (LookupError, TypeError) as error:
            raise CoreUnavailable("the core's answer can't be read", RETRY_AFTER_S) from error
        return json_answer(listed)

    async def describe_topic(self, call: Call) -> web.StreamResponse:
        """One topic; `create=1` makes it where the core creates topics on first use.

        With `ahead=1` it is asked ahead of an append or an open, which is decided and noted by
        itself: who may do nothing on the topic is told nothing, and one refusal is noted once.
        """
        create, ahead = _flag(call, "create"), _flag(call, "ahead")
        topic = topic_name(call.name)
        if ahead and not self._gate.may_any(call.caller, topic):
            return web.Response(status=204)
        self._gate.require_any(call.caller, topic)
        query = {"create": "1"} if create else None
        path = f"/v1/topics/{topic}"
        return passed_on(await self._core.ask("GET", path, call.behalf(), query=query))

    async def offsets(self, call: Call) -> web.StreamResponse:
        """Offsets of a topic's partitions, also by time."""
        topic = topic_name(call.name)
        self._gate.require_any(call.caller, topic)
        query = None
        if "time_us" in call.query:
            query = {"time_us": str(whole_number(call.query["time_us"], "time_us"))}
        path = f"/v1/topics/{topic}/offsets"
        return passed_on(await self._core.ask("GET", path, call.behalf(), query=query))

    async def create_topic(self, call: Call) -> web.StreamResponse:
        """Create a topic as described."""
        described = await self._described(call)
        topic = topic_name(described.get("name"), system=False)
        return await self._administer(call, topic, "POST", "/v1/topics", described)

    async def alter_topic(self, call: Call) -> web.StreamResponse:
        """Change a topic's settings."""
        topic = topic_name(call.name, system=False)
        changes = await self._described(call)
        return await self._administer(call, topic, "PATCH", f"/v1/topics/{topic}", changes)

    async def delete_topic(self, call: Call) -> web.StreamResponse:
        """Delete a topic."""
        topic = topic_name(call.name, system=False)
        return await self._administer(call, topic, "DELETE", f"/v1/topics/{topic}", None)

    async def _administer(
        self, call: Call, topic: str, method: str, path: str, described: dict[str, Any] | None
    ) -> web.Response:
        ruling = await self._gate.require(call.caller, questions_for(Needs.ADMIN, topic), topic)
        body = None if described is None else orjson.dumps(described)
        return passed_on(
            await self._core.ask(
                method, path, call.behalf(ruling), body=body, if_match=version_wanted(call)
            )
        )

    async def _described(self, call: Call) -> dict[str, Any]:
        with await self._intake.body(call.request, self._json_bytes_max) as body:
            return json_object(body)


def _flag(call: Call, name: str) -> bool:
    value = call.query.get(name, "0")
    if value not in ("0", "1"):
        raise BadRequest(f"query: {name} must be 0 or 1")
    return value == "1"


def version_wanted(call: Call) -> str | None:
    """The `If-Match` header, which must name one version of a topic."""
    wanted = call.request.headers.getall("If-Match", [])
    if not wanted:
        return None
    if len(wanted) > 1 or _VERSION.fullmatch(wanted[0]) is None:
        raise BadRequest('If-Match: must be one topic version in quotes, such as "17"')
    return wanted[0]
