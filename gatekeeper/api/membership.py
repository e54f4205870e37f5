"""Who may become a member of a subscription, decided about the topic that the core says it has."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from gatekeeper.api.call import Call
from gatekeeper.api.gate import Gate
from gatekeeper.api.member_messages import MemberOpen
from gatekeeper.api.places import Places
from gatekeeper.api.routes import Needs, questions_for
from gatekeeper.api.subscriptions import topic_of
from gatekeeper.audit.decisions import Ruling
from gatekeeper.core.upstream import Answer, CoreClient
from gatekeeper.policy.decide import Question


@dataclass(frozen=True, slots=True)
class Admitted:
    """A stream that may open: what is asked again while it is open, and the core's open message.

    `max_age_s` bounds the age of its first frames. `owner` is whose subscription it is, where that
    is another's.
    """

    questions: tuple[Question, ...]
    ruling: Ruling
    opening: str
    max_age_s: float | None = None
    owner: str = ""


class NotOpened(Exception):
    """The core says why a subscription can't be opened, in its own words."""

    def __init__(self, code: str, detail: str, members: Mapping[str, Any]) -> None:
        super().__init__(detail)
        self.code = code
        self.members = members


class Membership:
    """Decides about members. Lives in one event loop."""

    def __init__(self, *, gate: Gate, core: CoreClient, places: Places) -> None:
        self._gate = gate
        self._core = core
        self._places = places

    async def admit(self, call: Call, opening: MemberOpen) -> Admitted:
        """The stream that may open. Raises Denied and NotOpened."""
        owner = opening.owner or call.caller.principal
        path = f"/v1/subscriptions/{opening.subscription}"
        answer = await self._core.ask("GET", path, call.behalf(), query={"owner": owner})
        topic: str | None = None
        if answer.status == 200:
            topic = topic_of(answer)
        elif answer.status == 404 and opening.create is not None:
            topic = opening.create["topic"]
        whose = "" if owner == call.caller.principal else owner
        if whose and (topic is not None or answer.status == 404):
            await self._gate.require_share(call.caller, topic, whose)
        if topic is None:
            raise _refusal(answer)
        questions = questions_for(Needs.SUBSCRIPTION, topic)
        ruling = await self._gate.require(call.caller, questions, topic)
        if answer.status == 404 and opening.start != "latest":
            needs = questions_for(Needs.PLACE, topic)
            past = await self._gate.require(call.caller, needs, topic)
            await self._places.require(past, call.behalf(past), opening.start, unnamed_move=True)
        return Admitted(questions, ruling, opening.to_core(owner, topic), owner=whose)


def _refusal(answer: Answer) -> NotOpened:
    try:
        problem = orjson.loads(answer.body)
        code, detail = str(problem["code"]), str(problem["detail"])
    except (orjson.JSONDecodeError, LookupError, TypeError):
        return NotOpened("unavailable", f"the core answered {answer.status}; try again", {})
    kept = {name: problem[name] for name in ("subscription", "owner") if name in problem}
    return NotOpened(code, detail, kept)
