"""Denials and bursts of them."""

from typing import Any

from spark.checks.denials import BURST_PER_MINUTE, denial_bursts, denials

NO = {"allowed": False, "action": "publish", "reason": "no_rule", "rule": "default"}


def test_denials_are_counted_by_principal_rule_and_reason(decided: Any) -> None:
    rows = denials(
        decided(
            {**NO, "topic": "b"}, {**NO, "topic": "a"}, {**NO, "count": 40}, {"allowed": True},
            {**NO, "reason": "denied_by_rule", "rule": "D1"},
        )
    ).collect()  # fmt: skip
    found = {(row.rule, row.reason): (row["count"], row.topics) for row in rows}
    assert found == {
        ("default", "no_rule"): (42, ["a", "b", "t"]),
        ("D1", "denied_by_rule"): (1, ["t"]),
    }


def test_a_planted_burst_is_found_in_its_minute_and_a_trickle_is_not(decided: Any, at: Any) -> None:
    burst = [{**NO, "principal": "mallory", "at": at(1)}] * BURST_PER_MINUTE
    trickle = [{**NO, "at": at(hour)} for hour in range(BURST_PER_MINUTE)]
    (row,) = denial_bursts(decided(*burst, *trickle)).collect()
    assert (row.principal, row["count"]) == ("mallory", BURST_PER_MINUTE)
    assert row.minute.hour == 1
