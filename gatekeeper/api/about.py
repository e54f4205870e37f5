"""What a caller may ask about the service and about itself: status, whoami, access."""

from dataclasses import asdict

from aiohttp import web

from gatekeeper.api.call import Call, core_object, json_answer, passed_on
from gatekeeper.api.gate import Gate
from gatekeeper.api.parameters import required, topic_name
from gatekeeper.core.upstream import CoreClient
from gatekeeper.errors import BadRequest
from gatekeeper.policy.document import ACTIONS
from gatekeeper.policy.grants import grants_of


class About:
    """The handlers that decide nothing."""

    def __init__(self, *, gate: Gate, core: CoreClient, gatekeeper_id: str) -> None:
        self._gate = gate
        self._core = core
        self._gatekeeper_id = gatekeeper_id

    async def status(self, call: Call) -> web.StreamResponse:
        """The core's status, with the name of the gatekeeper that was asked."""
        answer = await self._core.ask("GET", "/v1/status", call.behalf())
        if answer.status != 200:
            return passed_on(answer)
        return json_answer({**core_object(answer), "gatekeeper": self._gatekeeper_id})

    async def whoami(self, call: Call) -> web.StreamResponse:
        """Who the gatekeeper takes the caller for, and what that caller may do."""
        identity = call.caller.identity
        grants = grants_of(self._gate.policy, identity)
        return json_answer(
            {
                "principal": call.caller.principal,
                "spiffe_id": identity.spiffe_id,
                "thumbprint": identity.thumbprint.hex(),
                "issuer": identity.issuer_url,
                "client_id": identity.client_id,
                "subject": identity.subject,
                "token_id": identity.token_id,
                "scopes": sorted(identity.scopes),
                "expires_at": identity.expires_at,
                "gatekeeper": self._gatekeeper_id,
                "policy_hash": self._gate.policy.hash.hex(),
                "allowed": [asdict(rule) for rule in grants.allowed],
                "denied": [asdict(rule) for rule in grants.denied],
                "complete": grants.complete,
            }
        )

    async def access(self, call: Call) -> web.StreamResponse:
        """Whether the caller would be allowed, and by which rule, without doing it."""
        topic = topic_name(required(call.query, "topic"))
        wanted = required(call.query, "action")
        action = next((known for known in ACTIONS if known == wanted), None)
        if action is None:
            raise BadRequest(f"query: action must be one of {', '.join(ACTIONS)}")
        owner = call.query.get("owner", "")
        decision = self._gate.policy.decide(call.caller.identity, action, topic, owner)
        return json_answer(
            {
                "allowed": decision.allowed,
                "action": action,
                "topic": topic,
                "principal": decision.principal,
                "rule": decision.rule,
                "reason": decision.reason,
                "detail": decision.text,
            }
        )
