"""Unused grants."""

from typing import Any

import pytest

from spark.checks.least_privilege import least_privilege, uses

GRANTS = "rule string, subject string, principals array<string>, judged boolean"
PUBLISH = 'topics."a".publish'


@pytest.fixture
def grants(spark: Any) -> Any:
    return lambda *rows: spark.createDataFrame(list(rows), GRANTS)


def verdicts(grants: Any, log: Any, batches: Any, decided: Any) -> dict[tuple[str, str], str]:
    log.add("a", [b"x"] * 3)
    used = uses(batches(), decided({"rule": 'topics."a".subscribe', "principal": "reader"}))
    return {(row.rule, row.subject): row.verdict for row in least_privilege(grants, used).collect()}


def test_planted_grants_that_nobody_used_are_found_and_used_ones_are_not(
    grants: Any, log: Any, batches: Any, decided: Any
) -> None:
    frame = grants(
        (PUBLISH, "billing", ["billing"], True),
        (PUBLISH, "legacy", ["legacy"], True),
        ('topics."a".subscribe', "readers", ["other", "reader"], True),
        ('topics."a".admin', "claim:corp:team=pay", None, True),
    )
    assert verdicts(frame, log, batches, decided) == {
        (PUBLISH, "billing"): "used",
        (PUBLISH, "legacy"): "unused",
        ('topics."a".subscribe', "readers"): "used",
        ('topics."a".admin', "claim:corp:team=pay"): "unused",
    }


def test_a_grant_that_is_younger_than_the_window_is_not_judged(
    grants: Any, log: Any, batches: Any, decided: Any
) -> None:
    frame = grants(
        (PUBLISH, "new-app", ["new-app"], False), (PUBLISH, "billing", ["billing"], False)
    )
    assert verdicts(frame, log, batches, decided) == {
        (PUBLISH, "new-app"): "too young to judge", (PUBLISH, "billing"): "used",
    }  # fmt: skip


def test_a_claim_counts_as_used_only_by_somebody_whom_no_name_means(
    grants: Any, log: Any, batches: Any, decided: Any
) -> None:
    named = grants((PUBLISH, "billing", ["billing"], True), (PUBLISH, "scope:corp:x", None, True))
    assert verdicts(named, log, batches, decided)[PUBLISH, "scope:corp:x"] == "unused"
    alone = grants((PUBLISH, "scope:corp:x", None, True))
    assert verdicts(alone, log, batches, decided)[PUBLISH, "scope:corp:x"] == "used"
