"""A decision with its id: what the answer, the provenance and the decision log all quote.

The policy says yes or no; this module gives that answer an id, a time and the facts that make it
checkable later. Pure values; knows nothing of HTTP and of how records are stored.
"""

import os
from dataclasses import dataclass, replace
from typing import Final

from gatekeeper.identity.identity import Identity
from gatekeeper.policy.decide import Decision, Question

DECISION_ID_BYTES: Final = 16
NO_RULE: Final = "default"
"""What a decision names as its rule where no rule matched: the policy denies by default."""


@dataclass(frozen=True, slots=True)
class Ruling:
    """One decision about one caller, action and topic. `max_age_s` bounds how far back it reads."""

    decision_id: bytes
    at_us: int
    allowed: bool
    action: Question
    topic: str
    principal: str
    rule: str
    reason: str
    text: str
    policy_hash: bytes
    identity: Identity
    max_age_s: float | None = None
    owner: str = ""

    @property
    def id_text(self) -> str:
        """The decision id as people quote it."""
        return id_text(self.decision_id)

    def refused(self, now_us: int, reason: str, text: str) -> "Ruling":
        """A decision of its own that takes back what this one allowed, for a named reason."""
        return replace(
            self,
            decision_id=new_decision_id(now_us),
            at_us=now_us,
            allowed=False,
            reason=reason,
            text=text,
        )


def id_text(decision_id: bytes) -> str:
    """A decision id in the usual notation of a UUID."""
    text = decision_id.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def new_decision_id(now_us: int) -> bytes:
    """An id that sorts by time: a UUID of version 7 (RFC 9562, section 5.7)."""
    value = bytearray((now_us // 1000).to_bytes(6, "big") + os.urandom(10))
    value[6] = 0x70 | value[6] & 0x0F
    value[8] = 0x80 | value[8] & 0x3F
    return bytes(value)


def rule_on(
    decision: Decision,
    *,
    identity: Identity,
    policy_hash: bytes,
    now_us: int,
) -> Ruling:
    """The policy's decision as a ruling, with an id and the facts that it rests on."""
    return Ruling(
        decision_id=new_decision_id(now_us),
        at_us=now_us,
        allowed=decision.allowed,
        action=decision.action,
        topic=decision.topic,
        principal=decision.principal,
        rule=decision.rule or NO_RULE,
        reason=decision.reason,
        text=decision.text,
        policy_hash=policy_hash,
        identity=identity,
        max_age_s=decision.max_age_s,
        owner=decision.owner,
    )


def record_of(ruling: Ruling, gatekeeper_id: str) -> dict[str, object]:
    """The ruling as one record of the decision log."""
    identity = ruling.identity
    whose = {"owner": ruling.owner} if ruling.owner else {}
    return {
        "kind": "decision",
        "decision_id": ruling.id_text,
        "at_us": ruling.at_us,
        "allowed": ruling.allowed,
        "action": ruling.action,
        "topic": ruling.topic,
        **whose,
        "principal": ruling.principal,
        "rule": ruling.rule,
        "reason": ruling.reason,
        "spiffe_id": identity.spiffe_id,
        "thumbprint": identity.thumbprint.hex(),
        "issuer": identity.issuer_url,
        "client_id": identity.client_id,
        "token_id": identity.token_id,
        "policy_hash": ruling.policy_hash.hex(),
        "gatekeeper": gatekeeper_id,
    }
