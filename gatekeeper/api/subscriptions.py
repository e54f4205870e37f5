"""/v1/subscriptions: each principal's own, and another's where the policy shares them.

The core knows which topic a subscription is on; it is asked first, the policy decides about that
topic, and the core is told which topic was decided about, so that a subscription that was replaced
in between is refused.
"""

import re
from typing import Any, Final

import orjson
from aiohttp import web

from gatekeeper.api.call import Call, core_object, json_answer, passed_on
from gatekeeper.api.dispatch import Handler
from gatekeeper.api.gate import Gate
from gatekeeper.api.intake import Intake
from gatekeeper.api.parameters import json_object, topic_name, whole_number
from gatekeeper.api.places import Places
from gatekeeper.api.routes import Needs, questions_for
from gatekeeper.api.stream_messages import Start, parse_start
from gatekeeper.api.topics import version_wanted
from gatekeeper.core.upstream import RETRY_AFTER_S, Answer, CoreClient
from gatekeeper.errors import BadRequest, CoreUnavailable

ANSWER_S_MAX: Final = 5.0
"""Beyond the wait that was asked for, an answer's time."""
OWNER_BYTES_MAX: Final = 512
"""A principal's name or a SPIFFE id."""
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


class Subscriptions:
    """The handlers of subscriptions. Lives in one event loop."""

    def __init__(
        self,
        *,
        gate: Gate,
        core: CoreClient,
        places: Places,
        intake: Intake,
        json_bytes_max: int,
        wait_s_max: float,
    ) -> None:
        self._gate = gate
        self._core = core
        self._places = places
        self._intake = intake
        self._json_bytes_max = json_bytes_max
        self._wait_ms_max = round(wait_s_max * 1000)

    def handlers(self) -> dict[str, Handler]:
        """The handler of each of their routes."""
        return {
            "list_subscriptions": self.list_subscriptions,
            "create_subscription": self.create_subscription,
            "describe_subscription": self.describe_subscription,
            "alter_subscription": self.alter_subscription,
            "delete_subscription": self.delete_subscription,
            "pause_subscription": self.pause_subscription,
            "resume_subscription": self.resume_subscription,
            "seek_subscription": self.seek_subscription,
            "ack_subscription": self.ack_subscription,
            "nack_subscription": self.nack_subscription,
        }

    async def list_subscriptions(self, call: Call) -> web.StreamResponse:
        """The caller's own, or those of another that are shared with it."""
        owner = self._owner(call)
        query = {"owner": owner}
        wait_ms = 0
        if "after" in call.query:
            query["after"] = str(whole_number(call.query["after"], "after"))
            wait_ms = whole_number(call.query.get("wait_ms", "0"), "wait_ms")
            wait_ms = min(wait_ms, self._wait_ms_max)
            query["wait_ms"] = str(wait_ms)
        answer = await self._core.ask(
            "GET",
            "/v1/subscriptions",
            call.behalf(),
            query=query,
            timeout_s=wait_ms / 1000 + ANSWER_S_MAX,
        )
        if answer.status != 200 or owner == call.caller.principal:
            return passed_on(answer)
        listed = core_object(answer)
        try:
            listed["subscriptions"] = [
                each
                for each in listed["subscriptions"]
                if self._gate.may_share(call.caller, each["topic"], owner)
            ]
        except (LookupError, TypeError) as error:
            raise CoreUnavailable("the core's answer can't be read", RETRY_AFTER_S) from error
        return json_answer(listed)

    async def create_subscription(self, call: Call) -> web.StreamResponse:
        """Create a subscription as described."""
        described = await self._described(call)
        named = described.pop("owner", None)
        if named is not None and call.query.get("owner", named) != named:
            raise BadRequest("owner: is given twice, and differs")
        owner = owner_name(named or call.query.get("owner")) or call.caller.principal
        topic = topic_name(described.get("topic"))
        start = parse_start(described.get("from", "latest"))
        needs = questions_for(Needs.PLACE, topic, from_latest=start == "latest")
        ruling = await self._gate.require(call.caller, needs, topic)
        if owner != call.caller.principal:
            await self._gate.require(call.caller, ("share",), topic, owner)
        if start != "latest" and ruling.max_age_s is not None:
            found = await self._found(call, owner, subscription_name(described.get("name")))
            if found is None:
                await self._places.require(ruling, call.behalf(ruling), start, unnamed_move=True)
        body = orjson.dumps({**described, "from": start, "owner": owner})
        return passed_on(
            await self._core.ask(
                "POST", "/v1/subscriptions", call.behalf(ruling), body=body, topic=topic
            )
        )

    async def describe_subscription(self, call: Call) -> web.StreamResponse:
        """One subscription: one's own always, another's where it is shared."""
        owner, name = self._owner(call), subscription_name(call.name)
        answer = await self._ask_for(call, owner, name)
        await self._require_share(call, answer, owner)
        return passed_on(answer)

    async def alter_subscription(self, call: Call) -> web.StreamResponse:
        """Change mode, lease or settings."""
        return await self._do(call, "PATCH", "", await self._described(call))

    async def delete_subscription(self, call: Call) -> web.StreamResponse:
        """Delete a subscription."""
        return await self._do(call, "DELETE", "", None)

    async def pause_subscription(self, call: Call) -> web.StreamResponse:
        """Give nothing out."""
        return await self._do(call, "POST", "/pause", None)

    async def resume_subscription(self, call: Call) -> web.StreamResponse:
        """Give out again."""
        return await self._do(call, "POST", "/resume", None)

    async def ack_subscription(self, call: Call) -> web.StreamResponse:
        """Acknowledge by hand."""
        return await self._do(call, "POST", "/ack", await self._described(call))

    async def nack_subscription(self, call: Call) -> web.StreamResponse:
        """Give out again by hand."""
        return await self._do(call, "POST", "/nack", await self._described(call))

    async def seek_subscription(self, call: Call) -> web.StreamResponse:
        """Begin anew at another place, which may lie in the past."""
        described = await self._described(call)
        if "to" not in described:
            raise BadRequest("to: is missing; name a place such as earliest")
        start = parse_start(described["to"], "to")
        return await self._do(call, "POST", "/seek", {**described, "to": start})

    async def _do(
        self, call: Call, method: str, rest: str, described: dict[str, Any] | None
    ) -> web.Response:
        owner, name = self._owner(call), subscription_name(call.name)
        answer = await self._ask_for(call, owner, name)
        await self._require_share(call, answer, owner)
        if answer.status != 200:
            return passed_on(answer)
        topic = topic_of(answer)
        start: Start = "latest" if described is None or rest != "/seek" else described["to"]
        needs = questions_for(call.route.needs, topic, from_latest=start == "latest")
        ruling = await self._gate.require(call.caller, needs, topic)
        await self._places.require(ruling, call.behalf(ruling), start, unnamed_move=False)
        return passed_on(
            await self._core.ask(
                method,
                f"/v1/subscriptions/{name}{rest}",
                call.behalf(ruling),
                query={"owner": owner},
                body=None if described is None else orjson.dumps(described),
                if_match=version_wanted(call),
                topic=topic,
            )
        )

    async def _require_share(self, call: Call, answer: Answer, owner: str) -> None:
        """Another's subscription must be shared, also to hear that there is none."""
        if owner != call.caller.principal and answer.status in (200, 404):
            topic = topic_of(answer) if answer.status == 200 else None
            await self._gate.require_share(call.caller, topic, owner)

    async def _found(self, call: Call, owner: str, name: str) -> Answer | None:
        answer = await self._ask_for(call, owner, name)
        return answer if answer.status == 200 else None

    async def _ask_for(self, call: Call, owner: str, name: str) -> Answer:
        path = f"/v1/subscriptions/{name}"
        return await self._core.ask("GET", path, call.behalf(), query={"owner": owner})

    def _owner(self, call: Call) -> str:
        return owner_name(call.query.get("owner")) or call.caller.principal

    async def _described(self, call: Call) -> dict[str, Any]:
        with await self._intake.body(call.request, self._json_bytes_max) as body:
            return json_object(body)


def subscription_name(name: object) -> str:
    """A subscription's name."""
    if not isinstance(name, str) or _NAME.fullmatch(name) is None:
        raise BadRequest(f"name: must be of the form {_NAME.pattern}")
    return name


def owner_name(owner: object) -> str | None:
    """A principal's name, or None where none is given."""
    if owner is None:
        return None
    if not isinstance(owner, str) or not 0 < len(owner.encode()) <= OWNER_BYTES_MAX:
        raise BadRequest(f"owner: must be a string of 1 to {OWNER_BYTES_MAX} bytes")
    if not owner.isprintable():
        raise BadRequest("owner: must be printable")
    return owner


def topic_of(answer: Answer) -> str:
    """The topic of a subscription that the core has described."""
    return topic_name(core_object(answer).get("topic"))
