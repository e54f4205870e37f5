import gc
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from gatekeeper.identity.identity import Identity
from gatekeeper.policy.decide import MEMBERSHIPS_MAX, Decision, Policy, Question
from gatekeeper.policy.parse import parse_policy

Rules = Callable[..., Policy]
Caller = Callable[..., Identity]


def test_what_no_rule_allows_is_denied(rules: Rules, caller: Caller) -> None:
    decision = rules().decide(caller(), "publish", "orders.eu")
    assert decision == Decision(False, "publish", "orders.eu", "billing", None, "no_rule")
    assert not decision
    assert decision.text == "billing may not publish on orders.eu: no rule allows it"


def test_an_allowance_names_its_rule(rules: Rules, caller: Caller) -> None:
    decision = rules("topics: {orders.*: {publish: [billing]}}").decide(
        caller(), "publish", "orders.eu"
    )
    assert decision
    assert decision.rule == 'topics."orders.*".publish'
    assert decision.text == (
        'billing may publish on orders.eu: topics."orders.*".publish allows it'
    )


@pytest.mark.parametrize("entry", ["orders.eu", "orders.*", ">"])
def test_any_deny_wins_over_any_allow(rules: Rules, caller: Caller, entry: str) -> None:
    policy = rules(
        f"""
        topics: {{"{entry}": {{publish: [billing, legacy]}}}}
        deny:
          - {{id: D1, who: [legacy], do: [publish], on: ">", reason: decommissioned}}
        """
    )
    assert policy.decide(caller("billing"), "publish", "orders.eu")
    denied = policy.decide(caller("legacy"), "publish", "orders.eu")
    assert (denied.allowed, denied.rule, denied.reason) == (False, "D1", "denied_by_rule")
    assert denied.text == ("legacy may not publish on orders.eu: D1 denies it (decommissioned)")


def test_a_deny_is_about_its_actions_only(rules: Rules, caller: Caller) -> None:
    policy = rules(
        """
        topics: {">": {publish: [legacy], subscribe: [legacy]}}
        deny: [{id: D1, who: [legacy], do: [publish], on: ">"}]
        """
    )
    assert not policy.decide(caller("legacy"), "publish", "orders")
    assert policy.decide(caller("legacy"), "subscribe", "orders")


def test_whoever_may_subscribe_may_publish_to_the_topics_dead_letters(
    rules: Rules, caller: Caller
) -> None:
    policy = rules("topics: {orders: {subscribe: [billing]}, 'team.>': {subscribe: [billing]}}")
    decision = policy.decide(caller(), "publish", "orders.dead")
    assert decision == Decision(
        True, "publish", "orders.dead", "billing", 'topics."orders".subscribe', "allowed"
    )
    assert policy.decide(caller(), "publish", "team.pay.dead")
    assert not policy.decide(caller("legacy"), "publish", "orders.dead")
    for topic in ("orders", "orders.dead.dead", "other.dead", "_audit.dead", ".dead"):
        assert not policy.decide(caller(), "publish", topic), topic
    for action in ("subscribe", "replay", "admin"):
        assert not policy.decide(caller(), action, "orders.dead")  # type: ignore[arg-type]


@pytest.mark.parametrize(("do", "on"), [("publish", "orders.dead"), ("subscribe", "orders")])
def test_a_deny_keeps_a_subscriber_from_the_dead_letters(
    rules: Rules, caller: Caller, do: str, on: str
) -> None:
    policy = rules(
        f"""
        topics: {{orders: {{subscribe: [billing]}}}}
        deny: [{{id: D1, who: [billing], do: [{do}], on: {on}}}]
        """
    )
    assert not policy.decide(caller(), "publish", "orders.dead")


def test_of_several_denies_the_first_in_the_file_is_named(rules: Rules, caller: Caller) -> None:
    policy = rules(
        """
        deny:
          - {id: wide, who: [auditors], do: [publish], on: ">"}
          - {id: exact, who: [reader], do: [publish], on: orders}
        """
    )
    assert policy.decide(caller("reader"), "publish", "orders").rule == "wide"


def test_of_several_rules_the_most_specific_is_named(rules: Rules, caller: Caller) -> None:
    policy = rules(
        """
        topics:
          ">": {publish: [billing]}
          "*.eu": {publish: [billing]}
          orders.>: {publish: [billing]}
          orders.*: {publish: [billing]}
          "orders.{corp:team}": {publish: [billing]}
          orders.eu: {publish: [reader]}
        """
    )
    who = caller(claims={"team": "eu"})
    assert policy.decide(who, "publish", "orders.eu").rule == 'topics."orders.{corp:team}".publish'
    assert policy.decide(who, "publish", "orders.us").rule == 'topics."orders.*".publish'
    assert policy.decide(who, "publish", "orders.us.x").rule == 'topics."orders.>".publish'
    assert policy.decide(who, "publish", "x.eu").rule == 'topics."*.eu".publish'
    assert policy.decide(who, "publish", "x").rule == 'topics.">".publish'


# ---------------------------------------------------------------- how far back


def test_subscribe_alone_reaches_back_as_far_as_the_policy_says(
    rules: Rules, caller: Caller
) -> None:
    topics = "topics: {orders: {subscribe: [billing]}, x.*: {subscribe: [billing]}}"
    for topic in ("orders", "x.y"):
        assert rules(topics).decide(caller(), "subscribe", topic).max_age_s == 600.0
        policy = rules(f"subscribe_lookback: 1h\n{topics}")
        assert policy.decide(caller(), "subscribe", topic).max_age_s == 3600.0


def test_a_replay_reaches_as_far_as_the_most_generous_rule(rules: Rules, caller: Caller) -> None:
    policy = rules(
        """
        topics:
          orders.eu: {replay: {who: [billing], max_age: 1h}}
          orders.*: {replay: {who: [billing], max_age: 90d}}
          orders.>: {replay: {who: [reader]}}
          all.x: {replay: {who: [billing], max_age: 1h}}
          all.>: {replay: [billing]}
        """
    )
    decision = policy.decide(caller(), "replay", "orders.eu")
    assert (decision.max_age_s, decision.rule) == (7776000.0, 'topics."orders.*".replay')
    decision = policy.decide(caller(), "replay", "all.x")
    assert (decision.max_age_s, decision.rule) == (None, 'topics."all.>".replay')


def test_other_actions_have_no_age(rules: Rules, caller: Caller) -> None:
    policy = rules("topics: {x: {publish: [billing], admin: [billing], audit: [billing]}}")
    actions: tuple[Question, ...] = ("publish", "admin", "audit")
    assert [policy.decide(caller(), action, "x").max_age_s for action in actions] == [None] * 3


# ---------------------------------------------------------------- claims, scopes, templates


def test_a_claim_counts_only_from_its_named_issuer(rules: Rules, caller: Caller) -> None:
    policy = rules('topics: {x: {publish: ["claim:corp:team=pay"]}}')
    paid = {"team": "pay"}
    assert policy.decide(caller("nobody", claims=paid), "publish", "x")
    assert not policy.decide(caller("nobody", issuer="other", claims=paid), "publish", "x")
    assert not policy.decide(caller("nobody", issuer="", claims=paid), "publish", "x")


def test_a_scope_counts_only_from_its_named_issuer(rules: Rules, caller: Caller) -> None:
    policy = rules('topics: {x: {publish: ["scope:corp:log.publish"]}}')
    scopes = frozenset({"log.publish"})
    assert policy.decide(caller("nobody", scopes=scopes), "publish", "x")
    assert not policy.decide(caller("nobody", scopes=scopes, issuer="other"), "publish", "x")
    assert not policy.decide(caller("nobody", claims={"scope": "log.publish"}), "publish", "x")


def test_a_template_is_the_callers_own_segment(rules: Rules, caller: Caller) -> None:
    policy = rules('topics: {"team.{corp:team}.>": {publish: [billing]}}')
    pay = caller(claims={"team": "pay"})
    assert policy.decide(pay, "publish", "team.pay.x")
    assert policy.decide(pay, "publish", "team.pay.x.y")
    for topic in ("team.sales.x", "team.pay", "team.Pay.x", "team.pay2.x", "pay.x", "team.x.pay"):
        assert policy.decide(pay, "publish", topic).reason == "no_rule"


TRICKS: list[Any] = [
    "pay.x", "*", ">", "PAY", "pay\n", " pay", "", "pаy", "{corp:team}", "p_y",  # noqa: RUF001
    ["pay"], ("pay",), {"pay": 1}, 1, True, None, 1.5, b"pay",
]  # fmt: skip


@pytest.mark.parametrize("value", TRICKS, ids=repr)
def test_a_claim_that_is_no_plain_segment_resolves_no_template(
    rules: Rules, caller: Caller, value: object
) -> None:
    policy = rules(
        """
        topics: {"team.{corp:team}.>": {publish: [billing]}, ">": {subscribe: [billing]}}
        deny: [{id: D1, who: [billing], do: [subscribe], on: "team.{corp:team}.>"}]
        """
    )
    who = caller(claims={"team": value})
    for topic in ("team.pay.x", "team.1.x", "team.true.x", "team.None.x", f"team.{value}.x"):
        assert not policy.decide(who, "publish", topic)
    denied = policy.decide(who, "subscribe", "team.pay.x")
    assert (denied.rule, denied.reason) == ("D1", "template_unresolved")
    assert "no usable value for its template" in denied.text


def test_a_deny_whose_template_is_unresolved_denies_what_it_could_cover_and_no_more(
    rules: Rules, caller: Caller
) -> None:
    policy = rules(
        """
        topics: {">": {publish: [billing]}, team.a: {publish: [billing]}}
        deny: [{id: D1, who: [billing], do: [publish], on: "team.{corp:team}"}]
        """
    )
    without, other = caller(), caller(claims={"team": "b"}, issuer="other", client_id="x")
    assert not policy.decide(without, "publish", "team.a")
    assert not policy.decide(without, "publish", "team.b")
    assert policy.decide(without, "publish", "team.a.b")
    assert policy.decide(without, "publish", "orders")
    assert policy.decide(other, "publish", "team.b").reason == "no_rule"
    resolved = caller(claims={"team": "a"})
    assert policy.decide(resolved, "publish", "team.a").reason == "denied_by_rule"
    assert policy.decide(resolved, "publish", "team.b")


def test_another_issuers_claim_leaves_a_deny_template_unresolved(
    rules: Rules, caller: Caller
) -> None:
    policy = rules(
        """
        topics: {">": {publish: [legacy]}}
        deny: [{id: D1, who: [legacy], do: [publish], on: "team.{corp:team}"}]
        """
    )
    foreign = caller("legacy", issuer="other", claims={"team": "b"})
    assert policy.decide(foreign, "publish", "team.a").reason == "template_unresolved"


# ---------------------------------------------------------------- topics


def test_wildcards_never_match_a_system_topic(rules: Rules, caller: Caller) -> None:
    policy = rules(
        """
        topics:
          ">": {publish: [billing], subscribe: [billing], replay: [billing], admin: [billing],
                audit: [billing]}
          "*": {audit: [billing]}
          "{corp:team}": {audit: [billing]}
        """
    )
    who = caller(claims={"team": "_audit"})
    for action in ("subscribe", "replay", "audit"):
        assert policy.decide(who, action, "_audit").reason == "no_rule"
    for action in ("publish", "admin"):
        assert policy.decide(who, action, "_audit").reason == "system_topic"
    assert not policy.decide(who, "any", "_audit")


def test_a_system_topic_is_read_with_audit_by_its_exact_name(rules: Rules, caller: Caller) -> None:
    policy = rules("topics: {_audit: {audit: [auditors]}}")
    for action in ("subscribe", "replay", "audit", "any"):
        decision = policy.decide(caller("reader"), action, "_audit")
        assert decision.rule == 'topics."_audit".audit'
        assert (decision.allowed, decision.max_age_s) == (True, None)
        assert not policy.decide(caller("billing"), action, "_audit")
        assert not policy.decide(caller("reader"), action, "_audit.x")
    for action in ("publish", "admin"):
        refused = policy.decide(caller("reader"), action, "_audit")
        assert (refused.allowed, refused.reason) == (False, "system_topic")
        assert "never write" in refused.text


@pytest.mark.parametrize(("do", "asked"), [("audit", "subscribe"), ("subscribe", "subscribe")])
def test_a_deny_of_a_system_topic_works_by_exact_name(
    rules: Rules, caller: Caller, do: str, asked: Question
) -> None:
    policy = rules(
        f"""
        topics: {{_audit: {{audit: [reader]}}}}
        deny:
          - {{id: wide, who: [reader], do: [{do}], on: ">"}}
          - {{id: exact, who: [reader], do: [{do}], on: _audit}}
        """
    )
    assert policy.decide(caller("reader"), asked, "_audit").rule == "exact"


@pytest.mark.parametrize(
    "topic",
    [
        "", "a..b", ".a", "a.", "a.*", "*", ">", "a.>", "a b", "a\n", "é", "a/b", "-a", "a" * 250,
        "{corp:team}", "orders.eu\x00",
    ],
)  # fmt: skip
def test_what_is_no_topic_is_denied_whatever_the_rules_say(
    rules: Rules, caller: Caller, topic: str
) -> None:
    policy = rules('topics: {">": {publish: [billing]}, "a.*": {publish: [billing]}}')
    decision = policy.decide(caller(), "publish", topic)
    assert (decision.allowed, decision.reason) == (False, "bad_topic")
    assert decision.text.isprintable()
    assert "that is not a topic's name (topic: " in decision.text
    assert len(decision.text) < 300


def test_a_denys_reason_with_braces_is_shown_as_it_is(rules: Rules, caller: Caller) -> None:
    policy = rules(
        """
        deny: [{id: D1, who: [billing], do: [publish], on: x, reason: "see {rule} {0} %s"}]
        """
    )
    assert policy.decide(caller(), "publish", "x").text.endswith("denies it (see {rule} {0} %s)")


def test_names_are_compared_letter_by_letter(rules: Rules, caller: Caller) -> None:
    policy = rules("topics: {orders.eu: {publish: [billing]}, wild.*: {publish: [billing]}}")
    for topic in ("Orders.eu", "orders.EU", "orders.eux", "orders.e", "WILD.x", "ordersXeu"):
        assert not policy.decide(caller(), "publish", topic)


# ---------------------------------------------------------------- any


def test_any_is_allowed_by_any_action(rules: Rules, caller: Caller) -> None:
    policy = rules(
        """
        topics: {orders: {admin: [billing], replay: {who: [billing], max_age: 1d}}}
        deny:
          - {id: D1, who: [legacy], do: [subscribe], on: orders}
          - {id: D2, who: [billing], do: [replay, admin], on: orders.x}
        """
    )
    decision = policy.decide(caller(), "any", "orders")
    assert (decision.action, decision.rule) == ("any", 'topics."orders".replay')
    assert decision.max_age_s is None
    assert policy.decide(caller("reader"), "any", "orders").reason == "no_rule"
    assert policy.decide(caller("legacy"), "any", "orders").rule == "D1"
    assert policy.decide(caller("legacy"), "any", "a..b").reason == "bad_topic"


# ---------------------------------------------------------------- who, and what is remembered


def test_a_caller_that_fits_no_principal_is_named_by_its_spiffe_id(
    rules: Rules, caller: Caller
) -> None:
    policy = rules('topics: {x: {publish: ["claim:corp:team=pay"]}}')
    stranger = caller("stranger", claims={"team": "pay"})
    assert policy.principal_of(stranger) == "spiffe://example/stranger"
    decision = policy.decide(stranger, "publish", "x")
    assert (decision.allowed, decision.principal) == (True, "spiffe://example/stranger")


def test_the_policy_carries_its_hash(rules: Rules) -> None:
    policy = rules()
    assert policy.hash == policy.document.sha256
    assert len(policy.hash) == 32


def test_a_caller_is_resolved_once_and_equal_callers_each_for_themselves(
    rules: Rules, caller: Caller
) -> None:
    policy = rules()
    one, same = caller(), caller()
    assert policy.membership_of(one) is policy.membership_of(one)
    assert policy.membership_of(one) is not policy.membership_of(same)


def test_memory_of_callers_is_bounded_and_keeps_who_is_in_use(rules: Rules, caller: Caller) -> None:
    policy = rules()
    busy = caller()
    first = policy.membership_of(busy)
    for _ in range(2 * MEMBERSHIPS_MAX):
        policy.membership_of(caller())
        assert policy.membership_of(busy) is first
    assert len(policy._recent) + len(policy._older) <= MEMBERSHIPS_MAX


# ---------------------------------------------------------------- ten thousand rules


@cache
def large(rules: int) -> Policy:
    lines = ["version: 1", "issuers: {corp: {issuer: https://idp.example, audience: a}}"]
    lines += ["principals:"]
    lines += [f"  app{n}: {{spiffe: spiffe://example/app{n}}}" for n in range(100)]
    lines += ["topics:"]
    for n in range(rules // 4):
        lines.append(f"  exact.n{n}.events: {{publish: [app{n % 100}]}}")
        lines.append(f"  wild.n{n}.*: {{publish: [app{n % 100}]}}")
        lines.append(f'  "team.{{corp:team}}.n{n}.>": {{publish: [app{n % 100}]}}')
    lines += ["deny:"]
    for n in range(rules // 4):
        lines.append(f"  - {{id: D{n}, who: [app{n % 100}], do: [publish], on: secret.n{n}.*}}")
    text = "\n".join(lines)
    return Policy(parse_policy(text.encode(), file="policy.yaml", folder=Path()))


def lines_run(policy: Policy, who: Identity, topic: str) -> int:
    """How many lines of Python a decision runs: its cost, without a clock."""
    count = 0

    def trace(_frame: FrameType, event: str, _argument: object) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    # A collection in between would run, and count, callbacks that others have registered.
    gc.disable()
    sys.settrace(trace)
    try:
        policy.decide(who, "publish", topic)
    finally:
        sys.settrace(before)
        gc.enable()
    return count


def test_a_decision_costs_the_same_with_ten_thousand_rules_as_with_four_hundred(
    caller: Caller,
) -> None:
    small, big = large(400), large(10_000)
    assert len(big.tables.rules) + len(big.document.denies) == 10_000
    who = caller("app7", claims={"team": "pay"})
    topics = {
        "exact.n7.events": (True, 15),
        "exact.n8.events": (False, 18),
        "wild.n7.x": (True, 120),
        "team.pay.n7.x.y": (True, 150),
        "secret.n7.x": (False, 120),
        "nothing.here": (False, 100),
    }
    for topic, (allowed, lines_max) in topics.items():
        for policy in (small, big):
            policy.membership_of(who)
            assert policy.decide(who, "publish", topic).allowed == allowed
        assert lines_run(big, who, topic) == lines_run(small, who, topic) <= lines_max


def test_the_first_decision_of_a_caller_does_not_look_at_every_rule(caller: Caller) -> None:
    small, big = large(400), large(10_000)
    costs = [lines_run(policy, caller("app7"), "exact.n7.events") for policy in (small, big)]
    assert costs[0] == costs[1] <= 120


SHARED = """
    topics:
      orders: {share: {who: [billing], owners: [legacy]}}
      "orders.*": {share: [billing]}
    deny: [{id: D1, who: [billing], do: [share], on: orders.closed}]
"""


@pytest.mark.parametrize(
    ("topic", "owner", "allowed"),
    [
        ("orders", "legacy", True),
        ("orders", "somebody", False),
        ("orders", "", True),
        ("orders.eu", "somebody", True),
        ("orders.closed", "somebody", False),
        ("payments", "legacy", False),
        ("_audit", "legacy", False),
    ],
)
def test_what_is_anothers_is_shared_topic_by_topic_and_owner_by_owner(
    rules: Rules, caller: Caller, topic: str, owner: str, *, allowed: bool
) -> None:
    decision = rules(SHARED).decide(caller(), "share", topic, owner)
    assert (decision.allowed, decision.owner) == (allowed, "" if topic == "_audit" else owner)


def test_a_denied_share_names_the_owner(rules: Rules, caller: Caller) -> None:
    decision = rules(SHARED).decide(caller(), "share", "orders", "somebody")
    assert decision.text == (
        "billing may not share on orders what is somebody's: no rule allows it"
    )
