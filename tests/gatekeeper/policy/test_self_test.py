from collections.abc import Callable

from gatekeeper.policy.decide import Policy
from gatekeeper.policy.self_test import run_tests

Rules = Callable[..., Policy]


def test_each_test_is_answered_by_the_policy_of_its_own_file(rules: Rules) -> None:
    policy = rules(
        """
        topics:
          orders.*: {publish: [billing]}
          "team.{corp:team}.>": {publish: ["scope:corp:log.publish"]}
          by.claim: {publish: ["claim:other:n=42"]}
        tests:
          - {as: billing, do: publish, on: orders.eu, expect: allow}
          - {as: billing, do: publish, on: order.eu, expect: allow}
          - {as: billing, claims: {team: pay}, scopes: [log.publish], do: publish, on: team.pay.x,
             expect: allow}
          - {as: billing, claims: {team: pay}, scopes: [log.publish], do: publish, on: team.hr.x,
             expect: deny}
          - {as: "spiffe://example/x", issuer: other, claims: {n: [1, 42]}, do: publish,
             on: by.claim, expect: allow}
          - {as: legacy, issuer: corp, claims: {n: 42}, do: publish, on: by.claim, expect: allow}
          - {as: billing, claims: {team: 42}, scopes: [log.publish], do: publish, on: team.42.x,
             expect: deny}
        """
    )
    outcomes = list(run_tests(policy))
    assert [outcome.passed for outcome in outcomes] == [
        True, False, True, True, True, False, True,
    ]  # fmt: skip


def test_a_failed_test_is_a_problem_at_its_line(rules: Rules) -> None:
    policy = rules("tests:\n  - {as: billing, do: publish, on: x, expect: allow}\n")
    (outcome,) = run_tests(policy)
    assert str(outcome.problem) == (
        "11: tests[0]: expected allow, but billing may not publish on x: no rule allows it"
    )


def test_a_test_of_a_share_may_name_the_owner(rules: Rules) -> None:
    policy = rules(
        """
        topics: {orders: {share: {who: [billing], owners: [legacy, "spiffe://example/x"]}}}
        tests:
          - {as: billing, do: share, on: orders, owner: legacy, expect: allow}
          - {as: billing, do: share, on: orders, owner: "spiffe://example/x", expect: allow}
          - {as: billing, do: share, on: orders, owner: reader, expect: deny}
        """
    )
    assert all(outcome.passed for outcome in run_tests(policy))
