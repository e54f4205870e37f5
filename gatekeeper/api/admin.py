"""127.0.0.1:8444 for operators: decisions, the policy and its explanations, revocation.

Every request carries an operator's secret (`operators.py`); a revocation is written to the decision
log with the operator's name before it takes effect. Browsers are kept out: a foreign `Host` or any
`Origin` is refused, so that no web page can reach this port through the machine's own browser.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Any, Final

import orjson
from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from gatekeeper.api.call import json_answer, passed_on
from gatekeeper.api.operators import Operators
from gatekeeper.api.parameters import json_object, known_query, whole_number
from gatekeeper.api.problems import PROBLEMS
from gatekeeper.audit.decision_log import DecisionLog
from gatekeeper.audit.decisions import id_text, new_decision_id
from gatekeeper.core.upstream import CoreClient, OnBehalf
from gatekeeper.errors import BadRequest, NoSuchDecision, NotAnOperator, NotFromHere
from gatekeeper.identity.revocation import BadRevocation, parse_revocation
from gatekeeper.identity.revocation_feed import RevocationFeed
from gatekeeper.policy.decide import Policy
from gatekeeper.policy.document import ACTIONS
from gatekeeper.policy.explain import explain
from gatekeeper.policy.persona import Personas, UnknownCaller
from gatekeeper.policy.reload import PolicyFile
from gatekeeper.policy.report import explanation_data
from hosting.problems import begin_request, error_middleware

BODY_BYTES_MAX: Final = 64 * 1024
"""A question or a revocation: a few hundred bytes."""
LISTED: Final = 100
"""Decisions that are listed, where the operator names no number."""
LISTED_MAX: Final = 2_000
OPERATOR: Final = web.RequestKey("sidegate.operator", str)
_HOSTS: Final = frozenset({"127.0.0.1", "localhost", "::1"})
_FILTERS: Final = ("principal", "topic", "action", "reason")


class Admin:
    """The admin application. Lives in one event loop."""

    def __init__(
        self,
        *,
        operators: Operators,
        decision_log: DecisionLog,
        policies: PolicyFile,
        feed: RevocationFeed,
        core: CoreClient,
        gatekeeper_id: str,
        status: Callable[[], Mapping[str, object]],
    ) -> None:
        self._operators = operators
        self._log = decision_log
        self._policies = policies
        self._feed = feed
        self._core = core
        self._gatekeeper_id = gatekeeper_id
        self._status = status

    def app(self) -> web.Application:
        """The application, behind the guard."""
        app = web.Application(
            middlewares=[error_middleware(PROBLEMS), self._guard()],
            client_max_size=BODY_BYTES_MAX,
        )
        app.router.add_get("/status", self.status)
        app.router.add_get("/decisions", self.decisions)
        app.router.add_get("/decisions/{id}", self.decision)
        app.router.add_get("/policy", self.policy)
        app.router.add_post("/policy/explain", self.explain)
        app.router.add_get("/revocations", self.revocations)
        app.router.add_post("/revocations", self.revoke)
        return app

    def _guard(self) -> Middleware:
        @web.middleware
        async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
            if "Origin" in request.headers or _host_of(request) not in _HOSTS:
                raise NotFromHere("the admin port is for commands on this machine, not for pages")
            scheme, _space, secret = request.headers.get("Authorization", "").partition(" ")
            known = scheme.lower() == "bearer" and self._operators.recognise(secret.strip(" "))
            if not known:
                raise NotAnOperator(
                    "send `Authorization: Bearer …` with the secret from data/operators/",
                    headers={"WWW-Authenticate": 'Bearer realm="sidegate admin"'},
                )
            request[OPERATOR] = known
            return await handler(request)

        return guard

    async def status(self, _: web.Request) -> web.StreamResponse:
        """What this gatekeeper has in its hands."""
        return json_answer(dict(self._status()))

    async def decisions(self, request: web.Request) -> web.StreamResponse:
        """The latest decisions of this gatekeeper that are noted, newest first."""
        known = frozenset({"limit", "allowed", *_FILTERS})
        given = known_query(request.query, known)
        limit = whole_number(given.pop("limit", str(LISTED)), "limit", at_most=LISTED_MAX)
        wanted: dict[str, object] = dict(given)
        if "allowed" in given:
            if given["allowed"] not in ("true", "false"):
                raise BadRequest("query: allowed must be true or false")
            wanted["allowed"] = given["allowed"] == "true"
        found = (record for record in reversed(self._log.recent) if _fits(record, wanted.items()))
        return json_answer({"decisions": list(islice(found, limit))})

    async def decision(self, request: web.Request) -> web.StreamResponse:
        """One decision, by the id that a caller quotes."""
        wanted = request.match_info["id"].lower()
        for record in reversed(self._log.recent):
            if record.get("decision_id") == wanted:
                return json_answer(record)
        raise NoSuchDecision(
            "this gatekeeper does not remember that decision; the topic _audit has all of them"
        )

    async def policy(self, _: web.Request) -> web.StreamResponse:
        """Which policy is in force, and whether its file was refused since."""
        rejection = self._policies.rejection
        return json_answer(
            {
                "file": self._policies.path.name,
                "sha256": self._policies.policy.hash.hex(),
                "loaded_at": self._policies.loaded_at,
                "refused": None
                if rejection is None
                else {"at": rejection.at, "problems": list(rejection.problems)},
            }
        )

    async def explain(self, request: web.Request) -> web.StreamResponse:
        """Why a caller may or may not, by the policy in force; and the nearest rule that would."""
        asked = json_object(await request.read())
        policy = self._policies.policy
        answer = explanation(policy, asked)
        return json_answer({**answer, "policy_sha256": policy.hash.hex()})

    async def revocations(self, _: web.Request) -> web.StreamResponse:
        """What is revoked, as far as this gatekeeper has read."""
        return json_answer({"version": self._feed.version, "revocations": self._feed.in_force()})

    async def revoke(self, request: web.Request) -> web.StreamResponse:
        """Revoke a token id, a client or a certificate, on every gatekeeper."""
        record = json_object(await request.read())
        try:
            parse_revocation(record)
        except BadRevocation as error:
            raise BadRequest(str(error)) from error
        now_us = time.time_ns() // 1000
        decision_id = id_text(new_decision_id(now_us))
        operator = f"operator:{request[OPERATOR]}"
        await self._log.note(
            {
                "kind": "operator",
                "decision_id": decision_id,
                "at_us": now_us,
                "allowed": True,
                "action": "revoke",
                "principal": operator,
                "revocation": record,
                "gatekeeper": self._gatekeeper_id,
            }
        )
        behalf = OnBehalf(operator, decision_id, begin_request(request))
        body = orjson.dumps(record)
        return passed_on(await self._core.ask("POST", "/v1/revocations", behalf, body=body))


def explanation(policy: Policy, asked: Mapping[str, Any]) -> dict[str, object]:
    """The answer to `{"as", "do", "on"}`, for `share` with `owner` and, for callers by SPIFFE id,
    `issuer`, `claims`, `scopes`."""
    unknown = asked.keys() - {"as", "do", "on", "owner", "issuer", "claims", "scopes"}
    if unknown:
        raise BadRequest(f"{min(unknown)[:40]!r} is unknown; known are as, do, on, issuer, …")
    action = next((known for known in ACTIONS if known == asked.get("do")), None)
    caller, topic = asked.get("as"), asked.get("on")
    issuer, claims = asked.get("issuer"), asked.get("claims", {})
    scopes, owner = asked.get("scopes", []), asked.get("owner", "")
    if action is None:
        raise BadRequest(f"do: must be one of {', '.join(ACTIONS)}")
    if not isinstance(caller, str) or not isinstance(topic, str):
        raise BadRequest("as, on: give a principal or SPIFFE id, and a topic")
    if not isinstance(issuer, str | None) or not isinstance(claims, dict):
        raise BadRequest("issuer must be a string, claims an object")
    if not isinstance(owner, str):
        raise BadRequest("owner must be a string")
    if not isinstance(scopes, list) or not all(isinstance(scope, str) for scope in scopes):
        raise BadRequest("scopes must be a list of strings")
    try:
        identity = Personas(policy.document).make(
            caller, issuer=issuer, claims=claims, scopes=frozenset(scopes)
        )
    except UnknownCaller as error:
        raise BadRequest(f"as: {error}") from error
    return explanation_data(explain(policy, identity, action, topic, owner))


def _fits(record: Mapping[str, object], wanted: Iterable[tuple[str, object]]) -> bool:
    return all(record.get(name) == value for name, value in wanted)


def _host_of(request: web.Request) -> str:
    host = request.headers.get("Host", "")
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0].lower()
