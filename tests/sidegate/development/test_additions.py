from pathlib import Path

import pytest

from gatekeeper.policy.decide import Policy
from gatekeeper.policy.load import load_policy
from gatekeeper.policy.persona import Personas
from sidegate.development import addresses, documents
from sidegate.development.additions import (
    client_added,
    grants_added,
    has_principal,
    service_added,
)
from sidegate.development.services import AddedService
from sidegate.development.yaml_insert import CannotInsert, load

PAYMENTS = AddedService("payments", 9010, ("invoices",), ("orders",))
BILLING = AddedService("billing", 9020, (), ("orders",))
BASE = documents.policy(addresses.chosen({}, {}))
MINE = """\
# Mine, and I like it so.
version: 1
issuers: {dev: {issuer: "https://127.0.0.1:8446", audience: "urn:sidegate"}}
principals:
    me: {spiffe: "spiffe://sidegate-dev/app/me"}     # that's me

topics:
    # A comment about orders.
    orders:
        publish: [me]
        replay: {who: [me], max_age: 90d}
    "invoices":
        publish:
        - me   # still me
"""


def policy(text: str) -> Policy:
    """The policy, after its own tests have passed."""
    return load_policy(text.encode(), file="p", folder=Path(), environment="development")


def may(text: str, who: str, action: str, topic: str) -> bool:
    loaded = policy(text)
    identity = Personas(loaded.document).make(who)
    return loaded.decide(identity, action, topic).allowed  # type: ignore[arg-type]


@pytest.mark.parametrize("before", [BASE, MINE])
def test_a_service_gets_its_least_privileges_and_the_files_own_tests_pass(before: str) -> None:
    text = service_added(before, PAYMENTS)
    for action, topic in (
        ("publish", "payments"),
        ("replay", "payments.eu.settled"),
        ("publish", "invoices"),
        ("subscribe", "orders"),
    ):
        assert may(text, "payments", action, topic), (action, topic)
    for action, topic in (
        ("publish", "orders"),
        ("replay", "orders"),
        ("admin", "payments"),
        ("audit", "_audit"),
        ("subscribe", "invoices"),
        ("publish", "paymentsx"),
    ):
        assert not may(text, "payments", action, topic), (action, topic)


@pytest.mark.parametrize("before", [BASE, MINE])
def test_no_line_that_was_there_is_lost_moved_or_loses_its_comment(before: str) -> None:
    text = service_added(service_added(before, PAYMENTS), BILLING)
    lines = iter(text.splitlines())
    for line in before.splitlines():
        # A who-list in brackets may have grown; whatever else stands in the line is as it was.
        assert any(line in after or line.rstrip("]}") in after for after in lines), line


@pytest.mark.parametrize("before", [BASE, MINE])
def test_the_same_again_changes_nothing(before: str) -> None:
    text = service_added(before, PAYMENTS)
    assert service_added(text, PAYMENTS) == text


def test_two_services_share_an_entry_and_nobody_loses_a_right() -> None:
    text = service_added(service_added(MINE, PAYMENTS), BILLING)
    topics = load(text)["topics"]
    assert topics["orders"]["subscribe"] == ["payments", "billing"]
    assert topics["orders"]["publish"] == ["me"]
    assert topics["invoices"]["publish"] == ["me", "payments"]


def test_a_grant_with_an_age_keeps_it() -> None:
    text = grants_added(service_added(MINE, PAYMENTS), "payments", {"orders": ("replay",)})
    assert load(text)["topics"]["orders"]["replay"] == {"who": ["me", "payments"], "max_age": "90d"}


def test_only_what_is_asked_for_is_granted_to_a_principal_that_is_there() -> None:
    text = service_added(MINE, PAYMENTS)
    less = text.replace(", replay: [payments]", "")
    more = grants_added(less, "payments", {"receipts": ("publish",)})
    assert may(more, "payments", "publish", "receipts")
    assert not may(more, "payments", "replay", "payments")


def test_a_policy_without_topics_principals_or_tests_gets_them() -> None:
    text = 'version: 1\nissuers: {dev: {issuer: "https://127.0.0.1:1", audience: a}}\n'
    assert may(service_added(text, PAYMENTS), "payments", "publish", "payments")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (MINE.replace("me: {", "payments: {").replace("[me]", "[payments]"), "somebody else"),
        (MINE + "groups: {payments: [me]}\n", "rename one of them"),
        (MINE.replace("{dev: ", "{corp: "), "issuers has no dev"),
        ("topics: []\n", "must be a table|issuers has no dev"),
        ("- 1\n", "holds no keys"),
    ],
)
def test_a_file_in_which_the_name_means_somebody_else_is_refused(text: str, why: str) -> None:
    with pytest.raises(CannotInsert, match=why):
        service_added(text, PAYMENTS)


def test_whether_a_policy_knows_a_service() -> None:
    assert not has_principal(MINE, PAYMENTS)
    assert has_principal(service_added(MINE, PAYMENTS), PAYMENTS)


def test_a_client_is_added_once_and_never_over_another() -> None:
    text = client_added(documents.clients(), PAYMENTS)
    assert load(text)["clients"]["payments"]["spiffe"] == PAYMENTS.spiffe_id
    assert "dev-app" in load(text)["clients"]
    assert client_added(text, PAYMENTS) == text
    with pytest.raises(CannotInsert, match="another client"):
        client_added("clients: {payments: {spiffe: spiffe://sidegate-dev/x}}\n", PAYMENTS)
