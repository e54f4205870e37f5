"""A policy's grants, and the file without some of them."""

import re
from pathlib import Path

import pytest

from spark.grants import BadPolicy, policy_diff, read_policy, without

ROOT = Path(__file__).parents[2]
DOC = (ROOT / "docs" / "policy.md").read_text(encoding="utf-8")
EXAMPLE = DOC.split("```yaml\n", 1)[1].split("```", 1)[0]

BLOCK = """version: 1
groups:
  all: [a, inner]
  inner:
    - b
    - "claim:corp:x=y"
topics:
  orders.eu:
    publish:
      - a   # the shop
      - legacy
      # and nobody else
    subscribe: [a]
  "team.>":
    replay: {who: [a, b], max_age: 90d}
    admin:
      - legacy
deny: []
"""


def test_the_grants_of_the_documented_example() -> None:
    grants = {
        (grant.rule, grant.subject): grant.principals
        for grant in read_policy(EXAMPLE.encode()).grants
    }
    assert grants['topics."orders.*".publish', "billing"] == ("billing",)
    assert grants['topics."orders.*".replay', "auditors"] is None
    assert grants['topics."orders.*".subscribe', "claim:corp:team=pay"] is None


def test_groups_mean_their_members_unless_one_is_open() -> None:
    text = BLOCK.replace('    - "claim:corp:x=y"\n', "").replace("[a]", "[all]")
    grants = {grant.subject: grant.principals for grant in read_policy(text.encode()).grants}
    assert grants["all"] == ("a", "b")


def test_taking_grants_away_keeps_the_rest_as_it_is_written() -> None:
    policy = read_policy(BLOCK.encode())
    unused = {
        ('topics."orders.eu".publish', "legacy"),
        ('topics."team.>".replay', "b"),
        ('topics."team.>".admin', "legacy"),
    }
    text = without(policy, unused)
    left = {(grant.rule, grant.subject) for grant in read_policy(text.encode()).grants}
    assert left == {(grant.rule, grant.subject) for grant in policy.grants} - unused
    assert "replay: {who: [a], max_age: 90d}" in text
    assert "deny: []" in text
    assert text.startswith(BLOCK.split("topics:", maxsplit=1)[0])
    diff = policy_diff(policy, unused, "policy.yaml")
    assert re.search(r"^-      - legacy$", diff, re.MULTILINE)
    assert diff.startswith("--- a/policy.yaml\n+++ b/policy.yaml\n")


def test_nothing_unused_is_an_empty_diff() -> None:
    assert policy_diff(read_policy(BLOCK.encode()), set(), "p") == ""


@pytest.mark.parametrize("data", [b"\xff", b"[1]", b"topics: [1]", b"a: b: c", b"listen: 1"])
def test_what_is_no_policy_is_refused(data: bytes) -> None:
    with pytest.raises(BadPolicy):
        read_policy(data)
