from collections.abc import Callable

from gatekeeper.identity.identity import Identity
from gatekeeper.policy.decide import Policy
from gatekeeper.policy.grants import LISTED_MAX, grants_of

Rules = Callable[..., Policy]
Caller = Callable[..., Identity]

POLICY = """
topics:
  ">": {admin: [legacy]}
  orders.*:
    publish: [billing]
    subscribe: ["claim:corp:team=pay"]
    replay: {who: [auditors], max_age: 90d}
  "team.{corp:team}.>":
    publish: ["scope:corp:log.publish"]
deny:
  - {id: D1, who: [legacy], do: [publish, admin], on: [">", "a.{corp:team}"], reason: gone}
"""


def test_a_caller_gets_its_own_rules_with_how_far_they_reach(rules: Rules, caller: Caller) -> None:
    found = grants_of(rules(POLICY), caller())
    assert [(rule.action, rule.on) for rule in found.allowed] == [("publish", "orders.*")]
    assert found.allowed[0].rule == 'topics."orders.*".publish'
    assert found.allowed[0].max_age_s is None
    assert found.denied == ()
    assert found.complete
    (replay,) = grants_of(rules(POLICY), caller("reader")).allowed
    assert (replay.action, replay.max_age_s) == ("replay", 90 * 86400)


def test_claims_and_scopes_count_and_templates_are_filled_in(rules: Rules, caller: Caller) -> None:
    who = caller("x", claims={"team": "pay"}, scopes=frozenset({"log.publish"}))
    found = grants_of(rules(POLICY), who).allowed
    assert {(rule.action, rule.on) for rule in found} == {
        ("subscribe", "orders.*"),
        ("publish", "team.pay.>"),
    }
    without = caller("x", scopes=frozenset({"log.publish"}))
    assert grants_of(rules(POLICY), without).allowed == ()


def test_denies_are_listed_by_pattern_with_their_reason(rules: Rules, caller: Caller) -> None:
    found = grants_of(rules(POLICY), caller("legacy")).denied
    assert [(deny.rule, deny.actions, deny.on, deny.reason) for deny in found] == [
        ("D1", ("publish", "admin"), ">", "gone"),
        ("D1", ("publish", "admin"), "a.{corp:team}", "gone"),
    ]


def test_every_listed_rule_allows_what_it_says(rules: Rules, caller: Caller) -> None:
    policy = rules(POLICY)
    who = caller("billing", claims={"team": "pay"}, scopes=frozenset({"log.publish"}))
    for rule in grants_of(policy, who).allowed:
        topic = rule.on.replace("*", "x").replace(">", "x")
        decision = policy.decide(who, rule.action, topic)
        assert (decision.allowed, decision.rule) == (True, rule.rule)


def test_a_list_that_is_too_long_says_so(rules: Rules, caller: Caller) -> None:
    many = "".join(f"  t{n}: {{publish: [billing]}}\n" for n in range(LISTED_MAX + 1))
    found = grants_of(rules("topics:\n" + many), caller())
    assert len(found.allowed) == LISTED_MAX
    assert not found.complete
