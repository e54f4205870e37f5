"""The two questions: who is calling, and may they."""

from collections.abc import Callable
from typing import Any

import pytest

from gatekeeper.api.gate import bearer_token, best_decision
from gatekeeper.identity.authentication_errors import TokenMissing, TokenRefused
from gatekeeper.policy.decide import Decision

Make = Callable[..., bytes]


def test_exactly_one_bearer_token_is_taken() -> None:
    assert bearer_token(["Bearer abc"]) == "abc"
    assert bearer_token(["bearer  abc "]) == "abc"
    for none in ([], ["abc"], ["Basic abc"], ["Bearer"]):
        with pytest.raises(TokenMissing):
            bearer_token(none)
    with pytest.raises(TokenRefused, match="more than once"):
        bearer_token(["Bearer a", "Bearer b"])


class Answers:
    """A policy that says what it is told to."""

    def __init__(self, **answers: tuple[bool, float | None]) -> None:
        self._answers = answers

    def decide(self, identity: Any, action: Any, topic: str, owner: str = "") -> Decision:
        allowed, max_age_s = self._answers[action]
        reason: Any = "allowed" if allowed else "no_rule"
        return Decision(allowed, action, topic, "p", None, reason, "", max_age_s)


@pytest.mark.parametrize(
    ("replay", "subscribe", "chosen"),
    [
        ((True, None), (True, 600.0), "replay"),
        ((True, 60.0), (True, 600.0), "subscribe"),
        ((False, None), (True, 600.0), "subscribe"),
        ((True, 60.0), (False, None), "replay"),
        ((False, None), (False, None), "replay"),
    ],
)
def test_of_several_answers_the_one_that_reaches_furthest_back_counts(
    replay: Any, subscribe: Any, chosen: str
) -> None:
    policy: Any = Answers(replay=replay, subscribe=subscribe)
    who: Any = None
    decision = best_decision(policy, who, ("replay", "subscribe"), "t")
    assert decision.action == chosen
    assert decision.allowed == (replay[0] or subscribe[0])


async def test_nobody_is_let_in_before_the_revocations_are_known(new_mesh: Any) -> None:
    mesh = await new_mesh(ready=False)
    mesh.gatekeeper.feed.known = False
    status, problem, _ = await mesh.caller().ask("GET", "/v1/whoami")
    assert (status, problem["code"]) == (503, "unavailable")


async def test_an_allowed_decision_stands_until_the_policy_or_the_token_changes(
    mesh: Any, wait_until: Any
) -> None:
    leaf = mesh.leaf("reader")
    reader = mesh.caller("reader", leaf=leaf)

    async def quoted() -> str:
        await reader.ask("GET", "/v1/read?topic=orders.eu&offset=0")
        return str(mesh.core.sent("/v1/read")[-1]["Sidegate-Decision"])

    first = await quoted()
    assert await quoted() == first
    reader.token = mesh.token(leaf, "reader", jti="token-2")
    second = await quoted()
    assert second != first
    before = mesh.gatekeeper.policies.policy
    mesh.write_policy("# changed\n")
    await wait_until(lambda: mesh.gatekeeper.policies.policy is not before)
    assert await quoted() not in (first, second)


async def test_decisions_are_counted_by_action_result_rule_and_reason(
    mesh: Any, frame: Make
) -> None:
    caller = mesh.caller()
    await caller.append(frame("orders.eu"), frame("secret"))
    value = mesh.gatekeeper.registry.get_sample_value
    name = "sidegate_gatekeeper_decisions_total"
    allowed = {
        "action": "publish",
        "result": "allow",
        "rule": 'topics."orders.*".publish',
        "reason": "allowed",
    }
    denied = {"action": "publish", "result": "deny", "rule": "default", "reason": "no_rule"}
    assert value(name, allowed) == 1
    assert value(name, denied) == 1


async def test_new_decisions_of_a_reader_count_against_its_quota(new_mesh: Any) -> None:
    mesh = await new_mesh(policy="quotas: {reader: {messages_per_s: 3}}")
    reader = mesh.caller("reader", "reader")
    statuses = [
        (await reader.ask("GET", f"/v1/read?topic=orders.{number}&offset=0"))[0]
        for number in range(6)
    ]
    assert statuses[:3] == [200, 200, 200]
    assert 429 in statuses[3:]
    assert (await reader.ask("GET", "/v1/read?topic=orders.0&offset=0"))[0] == 200, "it stands"
