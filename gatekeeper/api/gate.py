"""Who is calling, and may they: the two questions that every request is asked, in this order.

Joins the authenticator, the policy in force, the connections and the decision log. Handlers ask
it and then do; it sees a request's headers and connection and never a body. Lives in one event
loop.
"""

import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from aiohttp import web

from gatekeeper.api.connections import Connection, Connections
from gatekeeper.api.quotas import Quotas
from gatekeeper.audit.decision_log import DecisionLog
from gatekeeper.audit.decisions import Ruling, rule_on
from gatekeeper.errors import Denied, OverQuota
from gatekeeper.identity.authentication_errors import (
    AuthenticationError,
    Reason,
    TokenMissing,
    TokenRefused,
)
from gatekeeper.identity.authenticator import Authenticator
from gatekeeper.identity.identity import Identity
from gatekeeper.metrics import GateMetrics
from gatekeeper.policy.decide import Decision, Policy, Question
from hosting.problems import begin_request

RECORD_BYTES: Final = 512
"""A record of the decision log, of about this size."""
STANDING_MAX: Final = 10_000
"""Decisions that stand at one time; the least recently used is decided anew."""


@dataclass(frozen=True, slots=True)
class Caller:
    """An authenticated caller of one request or stream."""

    identity: Identity
    principal: str
    connection: Connection
    received_us: int
    request_id: str


class Gate:
    """The two questions. Every answer but the routine allowance of a publish is noted."""

    def __init__(
        self,
        *,
        authenticator: Authenticator,
        policy: Callable[[], Policy],
        connections: Connections,
        decision_log: DecisionLog,
        metrics: GateMetrics,
        quotas: Quotas,
        require_known: Callable[[], None],
        stands_for_s: float,
    ) -> None:
        self._authenticator = authenticator
        self._policy = policy
        self._connections = connections
        self._log = decision_log
        self._metrics = metrics
        self._quotas = quotas
        self._require_known = require_known
        self._stands_for_us = round(stands_for_s * 1_000_000)
        self._standing: OrderedDict[tuple[object, ...], Ruling] = OrderedDict()

    @property
    def policy(self) -> Policy:
        """The policy in force now."""
        return self._policy()

    async def admit(self, request: web.BaseRequest) -> Caller:
        """Authenticate a request by its connection's certificate and its bearer token."""
        connection = self._connections.of(request.transport)
        if connection is None:
            raise ConnectionResetError("the connection is gone")
        authorization = request.headers.getall("Authorization", ())
        return await self.admit_on(connection, authorization, begin_request(request))

    async def admit_on(
        self, connection: Connection, authorization: Sequence[str], request_id: str
    ) -> Caller:
        """The same for a request that came on `connection` with these Authorization headers."""
        self._require_known()
        identity = await self.identify(connection, authorization)
        principal = self.principal_of(identity)
        self._connections.claim(connection, principal)
        return Caller(identity, principal, connection, _now_us(), request_id)

    async def identify(self, connection: Connection, authorization: Sequence[str]) -> Identity:
        """Who speaks on `connection` with these Authorization headers, of which there must be
        exactly one; a refusal is counted and noted."""
        try:
            token = bearer_token(authorization)
            return await self._authenticator.authenticate(connection.chain, token, time.time())
        except AuthenticationError as error:
            self._metrics.refused(error.code)
            self._log.note_refusal(connection.claimed_id, connection.thumbprint, error.code)
            raise

    def principal_of(self, identity: Identity) -> str:
        """The policy's name for the caller; its SPIFFE id where the policy has none."""
        return self._policy().principal_of(identity)

    def rule_publish(self, caller: Caller, topic: str) -> Ruling:
        """Decide a publish. A denial is noted; an allowance is in the batch's provenance."""
        policy = self._policy()
        ruling = _ruling(policy, policy.decide(caller.identity, "publish", topic), caller)
        self._metrics.decided(ruling)
        if not ruling.allowed:
            self._log.note_denial(ruling)
        return ruling

    async def require(
        self, caller: Caller, questions: Sequence[Question], topic: str, owner: str = ""
    ) -> Ruling:
        """The ruling that answers one of `questions` with yes, or Denied. `owner` is whose
        subscription it is about, where that is asked.

        Of several that do, the one that reaches back furthest counts. An allowed
        decision stands for a while: repeats quote its id and are not noted again.
        """
        policy = self._policy()
        identity = caller.identity
        key = (policy.hash, identity.thumbprint, identity.token_id, caller.principal, *questions)
        standing = self._standing.get((*key, topic, owner))
        if standing is not None and caller.received_us - standing.at_us < self._stands_for_us:
            self._standing.move_to_end((*key, topic, owner))
            return standing
        decision = best_decision(policy, identity, questions, topic, owner)
        ruling = _ruling(policy, decision, caller)
        self._metrics.decided(ruling)
        if not ruling.allowed:
            self._log.note_denial(ruling)
            raise Denied(ruling)
        self._spend_record(policy, caller)
        await self._log.note_allowed(ruling)
        self._standing[(*key, topic, owner)] = ruling
        if len(self._standing) > STANDING_MAX:
            self._standing.popitem(last=False)
        return ruling

    async def require_share(self, caller: Caller, topic: str | None, owner: str) -> None:
        """Raise Denied unless the caller may use this subscription of `owner`'s, which is on
        `topic`; None where there is none.

        Both refusals read alike and name no topic: whoever may not share a subscription does not
        learn whether there is one. The decision log has the topic.
        """
        if topic is None:
            nobody = Decision(False, "share", "", caller.principal, None, "no_rule", owner=owner)
            raise Denied(_unshared(self.note_denial(caller, nobody)))
        try:
            await self.require(caller, ("share",), topic, owner)
        except Denied as denied:
            raise Denied(_unshared(denied.ruling)) from denied

    def _spend_record(self, policy: Policy, caller: Caller) -> None:
        """A decision that is noted costs its caller as much as a small message: whoever may read
        every topic could else fill the decision log by asking for names that do not exist."""
        over = self._quotas.take(
            caller.principal,
            policy.limits_of(caller.identity),
            messages=1,
            size=RECORD_BYTES,
            now=time.monotonic(),
        )
        if over is not None:
            raise OverQuota(f"{caller.principal} is {over.text}", over.retry_after_s)

    def require_any(self, caller: Caller, topic: str) -> None:
        """Raise Denied unless the caller may do anything at all on the topic. An allowance is not
        noted: to look at a topic's description is none of the actions that are."""
        decision = self._policy().decide(caller.identity, "any", topic)
        if not decision.allowed:
            raise Denied(self.note_denial(caller, decision))

    def may_any(self, caller: Caller, topic: str) -> bool:
        """Whether the caller may do anything on the topic; nothing is noted."""
        return self._policy().decide(caller.identity, "any", topic).allowed

    def may_share(self, caller: Caller, topic: str, owner: str) -> bool:
        """Whether the caller may see what is another's on the topic; nothing is noted."""
        return self._policy().decide(caller.identity, "share", topic, owner).allowed

    def note_denial(self, caller: Caller, decision: Decision) -> Ruling:
        """Note a denial of the policy in force that was found on its own: an open stream's."""
        ruling = _ruling(self._policy(), decision, caller)
        self._metrics.decided(ruling)
        self._log.note_denial(ruling)
        return ruling

    def refuse_age(self, ruling: Ruling) -> Denied:
        """The denial of a message that is older than `ruling` lets its caller see."""
        denial = ruling.refused(
            _now_us(),
            "older_than_allowed",
            f"{ruling.action} on {ruling.topic} reaches back {ruling.max_age_s:.0f} s; "
            "begin at a later offset or time",
        )
        self._metrics.decided(denial)
        self._log.note_denial(denial)
        return Denied(denial)


def _unshared(ruling: Ruling) -> Ruling:
    """A denial as it is told to somebody who may not know what it is about."""
    text = (
        f"{ruling.principal} may not use this subscription of {ruling.owner}'s: there is none of "
        "this name, or no rule shares it"
    )
    return replace(ruling, topic="", reason="not_shared", text=text)


def best_decision(
    policy: Policy, identity: Identity, questions: Sequence[Question], topic: str, owner: str = ""
) -> Decision:
    """Of the answers, the yes that reaches back furthest; without a yes, the first no."""
    decisions = [policy.decide(identity, question, topic, owner) for question in questions]
    allowed = [decision for decision in decisions if decision.allowed]
    if not allowed:
        return decisions[0]
    return max(allowed, key=lambda decision: _reach(decision.max_age_s))


def _reach(max_age_s: float | None) -> float:
    return float("inf") if max_age_s is None else max_age_s


def _ruling(policy: Policy, decision: Decision, caller: Caller) -> Ruling:
    return rule_on(decision, identity=caller.identity, policy_hash=policy.hash, now_us=_now_us())


def bearer_token(authorization: Sequence[str]) -> str:
    """The token in a request's Authorization headers. Two headers are refused: which one counts
    would depend on who reads them. What is in the token is the authenticator's business."""
    if not authorization:
        raise TokenMissing("send the access token in the header `Authorization: Bearer …`")
    if len(authorization) > 1:
        raise TokenRefused(
            Reason.TOKEN_MALFORMED, "Authorization stands more than once; send one token"
        )
    scheme, space, token = authorization[0].partition(" ")
    if scheme.lower() != "bearer" or not space:
        raise TokenMissing("the Authorization header's scheme must be Bearer")
    return token.strip(" ")


def _now_us() -> int:
    return time.time_ns() // 1000
