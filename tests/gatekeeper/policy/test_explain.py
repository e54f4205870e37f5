from collections.abc import Callable

import pytest

from gatekeeper.identity.identity import Identity
from gatekeeper.policy.decide import Policy
from gatekeeper.policy.explain import explain

Rules = Callable[..., Policy]
Caller = Callable[..., Identity]

POLICY = """
topics:
  orders.*:
    publish: [billing]
    subscribe: ["claim:corp:team=pay"]
    replay: {who: [auditors], max_age: 90d}
  "team.{corp:team}.>":
    publish: ["scope:corp:log.publish"]
  invoices:
    subscribe: [billing]
  _audit:
    audit: [auditors]
deny:
  - {id: D1, who: [legacy], do: [publish], on: ">", reason: decommissioned}
"""


def test_an_allowance_has_its_rule_its_line_and_its_reasons(rules: Rules, caller: Caller) -> None:
    found = explain(rules(POLICY), caller(), "publish", "orders.eu")
    assert found.decision.allowed
    assert (found.decision.rule, found.line) == ('topics."orders.*".publish', 13)
    assert found.nearest is None
    assert found.why[0] == "the caller is billing"


def test_groups_claims_and_templates_are_told(rules: Rules, caller: Caller) -> None:
    who = caller("reader", claims={"team": "pay"}, scopes=frozenset({"log.publish", "x"}))
    why = explain(rules(POLICY), who, "replay", "orders.eu").why
    assert "it also counts as auditors, claim:corp:team=pay, scope:corp:log.publish" in why
    assert "{corp:team} is pay" in why
    assert "it reaches back 90d" in why


@pytest.mark.parametrize(
    ("setting", "span"),
    [("", "10m"), ("subscribe_lookback: 90s", "90s"), ("subscribe_lookback: 48h", "2d")],
)
def test_how_far_subscribe_reaches_is_told(
    rules: Rules, caller: Caller, setting: str, span: str
) -> None:
    policy = rules(f"topics: {{x: {{subscribe: [billing]}}}}\n{setting}")
    why = explain(policy, caller(), "subscribe", "x").why
    assert f"it reaches back {span}; further back needs replay" in why


def test_a_caller_that_is_not_listed_gets_the_rule_to_be_added_to(
    rules: Rules, caller: Caller
) -> None:
    nearest = explain(rules(POLICY), caller("reader"), "publish", "orders.eu").nearest
    assert nearest is not None
    assert (nearest.rule, nearest.line) == ('topics."orders.*".publish', 13)
    assert nearest.missing == "reader is not in its who-list"
    assert nearest.change == 'add reader to topics."orders.*".publish (line 13)'


def test_a_misspelt_topic_gets_the_rule_that_was_meant(rules: Rules, caller: Caller) -> None:
    policy = rules(POLICY + "\nsubscribe_lookback: 1m\n")
    nearest = explain(policy, caller(), "publish", "order.eu").nearest
    assert nearest is not None
    assert nearest.rule == 'topics."orders.*".publish'
    assert nearest.missing == "order.eu does not fit orders.*"


def test_a_wrong_claim_is_named_with_what_the_topic_needs(rules: Rules, caller: Caller) -> None:
    scopes = frozenset({"log.publish"})
    policy = rules(POLICY)
    cases = {
        "is pay, the topic has hr": caller("x", claims={"team": "pay"}, scopes=scopes),
        "is missing, the topic has hr": caller("x", scopes=scopes),
        "is not a text of a-z": caller("x", claims={"team": ["hr"]}, scopes=scopes),
    }
    for missing, who in cases.items():
        nearest = explain(policy, who, "publish", "team.hr.x").nearest
        assert nearest is not None
        assert nearest.rule == 'topics."team.{corp:team}.>".publish'
        assert missing in nearest.missing
        assert "get a token with that claim" in nearest.change


def test_a_claim_of_another_issuer_is_named(rules: Rules, caller: Caller) -> None:
    policy = rules('topics: {"team.{corp:team}.>": {publish: [legacy]}}')
    who = caller("legacy", issuer="other", claims={"team": "hr"})
    nearest = explain(policy, who, "publish", "team.hr.x").nearest
    assert nearest is not None
    assert "counts only from corp, and this token is other's" in nearest.missing


def test_a_claim_and_a_who_list_that_are_both_wrong_are_both_told(
    rules: Rules, caller: Caller
) -> None:
    nearest = explain(rules(POLICY), caller("x"), "publish", "team.hr.x").nearest
    assert nearest is not None
    assert "not in its who-list; and the token's {corp:team} is missing" in nearest.missing
    assert "a principal for this caller" in nearest.change


def test_another_action_is_the_nearest_where_it_is_all_there_is(
    rules: Rules, caller: Caller
) -> None:
    nearest = explain(rules(POLICY), caller(), "admin", "invoices").nearest
    assert nearest is not None
    assert nearest.rule == 'topics."invoices".subscribe'
    assert nearest.missing == "it is about subscribe, not admin"
    assert nearest.change == "grant admin in the same entry (line 19)"


def test_nobody_is_told_to_join_a_rule_on_every_topic_while_a_smaller_change_would_do(
    rules: Rules, caller: Caller
) -> None:
    everything = """
        topics:
          ">": {publish: [legacy]}
    """
    nearest = explain(rules(everything), caller(), "publish", "orders").nearest
    assert nearest is not None
    assert nearest.rule == 'topics.">".publish'
    own = everything + "      billing.*: {publish: [billing]}\n"
    nearest = explain(rules(own), caller(), "publish", "orders").nearest
    assert nearest is not None
    assert nearest.rule == 'topics."billing.*".publish'
    assert nearest.change == "use a topic that fits billing.*, or add an entry for orders"


def test_behind_a_deny_the_rule_that_would_allow_is_named(rules: Rules, caller: Caller) -> None:
    policy = rules(
        """
        topics: {x: {publish: [legacy]}}
        deny: [{id: D1, who: [legacy], do: [publish], on: ">", reason: gone}]
        """
    )
    found = explain(policy, caller("legacy"), "publish", "x")
    assert (found.decision.rule, found.line) == ("D1", 12)
    assert found.nearest is not None
    assert found.nearest.rule == 'topics."x".publish'
    assert found.nearest.missing == "D1 denies first"
    assert found.nearest.change == "take legacy out of D1 (line 12), or narrow its on"


def test_behind_a_deny_with_nothing_allowed_both_are_told(rules: Rules, caller: Caller) -> None:
    nearest = explain(rules(POLICY), caller("legacy"), "publish", "orders.eu").nearest
    assert nearest is not None
    assert nearest.missing == "D1 denies first; and legacy is not in its who-list"
    assert "take legacy out of D1" in nearest.change
    assert "add legacy to" in nearest.change


def test_a_caller_that_almost_fits_a_principal_is_told_what_is_wrong(
    rules: Rules, caller: Caller
) -> None:
    wrong = caller("billing", client_id="biling")
    why = explain(rules(POLICY), wrong, "publish", "orders.eu").why
    assert why[0].startswith("the caller fits no principal")
    assert "it almost fits billing: client_id is biling, not billing" in why


def test_a_claim_that_keeps_a_caller_from_its_principal_is_told(
    parse: Callable[..., object], caller: Caller
) -> None:
    document = parse(
        "version: 1\nissuers: {corp: {issuer: https://idp.example, audience: a}}\n"
        "principals: {app: {issuer: corp, client_id: app, claims: {team: pay}}}\n"
    )
    policy = Policy(document)  # type: ignore[arg-type]
    why = explain(policy, caller("app", claims={"team": ["hr", "it"]}), "publish", "x").why
    assert "it almost fits app: claim team is hr, it, not pay" in why


def test_a_system_topic_says_that_it_needs_audit(rules: Rules, caller: Caller) -> None:
    found = explain(rules(POLICY), caller(), "subscribe", "_audit")
    assert "a system topic is read with audit, granted under its exact name" in found.why
    assert found.nearest is not None
    assert found.nearest.rule == 'topics."_audit".audit'
    unnamed = explain(rules(POLICY), caller("reader"), "audit", "_other")
    assert unnamed.nearest is None or unnamed.nearest.rule == 'topics."_audit".audit'


@pytest.mark.parametrize(("action", "topic"), [("publish", "_audit"), ("publish", "a..b")])
def test_what_no_rule_could_allow_has_no_nearest_rule(
    rules: Rules, caller: Caller, action: str, topic: str
) -> None:
    assert explain(rules(POLICY), caller(), action, topic).nearest is None  # type: ignore[arg-type]


def test_a_policy_without_rules_has_no_nearest_rule(rules: Rules, caller: Caller) -> None:
    assert explain(rules(), caller(), "publish", "x").nearest is None
    denied = rules('deny: [{id: D1, who: [legacy], do: [publish], on: ">"}]')
    assert explain(denied, caller("legacy"), "publish", "x").nearest is None


def test_explaining_gives_the_decision_itself(rules: Rules, caller: Caller) -> None:
    policy = rules(POLICY)
    for topic in ("orders.eu", "order.eu", "_audit", "a..b", "team.pay.x"):
        for name in ("billing", "legacy", "reader", "x"):
            who = caller(name, claims={"team": "pay"})
            for action in ("publish", "subscribe", "replay", "admin", "audit"):
                found = explain(policy, who, action, topic)  # type: ignore[arg-type]
                assert found.decision == policy.decide(who, action, topic)  # type: ignore[arg-type]
                assert found.decision.text in found.why


def test_a_share_that_is_about_others_names_them(rules: Rules, caller: Caller) -> None:
    policy = rules("topics: {orders: {share: {who: [billing], owners: [reader, legacy]}}}")
    found = explain(policy, caller(), "share", "orders", "somebody")
    assert not found.decision.allowed
    assert found.nearest is not None
    assert found.nearest.missing == "it is about what is legacy, reader's"
    assert found.nearest.change == "add somebody to its owners"
    assert explain(policy, caller(), "share", "orders", "legacy").decision.allowed
