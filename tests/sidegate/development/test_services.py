import json

import pytest

from sidegate.development.services import (
    TAKEN,
    AddedService,
    check_name,
    check_pattern,
    read_registry,
    write_registry,
)

PAYMENTS = AddedService("payments", 9010, ("invoices",), ("orders", "orders.*"))


@pytest.mark.parametrize("name", ["payments", "p", "a1", "order-intake", "x" * 63])
def test_a_name_that_fits_everywhere_is_taken(name: str) -> None:
    assert check_name(name) == name


@pytest.mark.parametrize(
    "name",
    ["", "Payments", "1st", "a.b", "a_b", "-a", "a/b", "../a", "a b", "ä", "x" * 64, "a\n"],
)
def test_a_name_that_does_not_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="no service's name"):
        check_name(name)


@pytest.mark.parametrize("name", [*sorted(TAKEN), "true", "no", "null"])
def test_a_name_that_means_something_else_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="choose another"):
        check_name(name)


@pytest.mark.parametrize(
    "pattern", [">", "*", "*.x", "_audit", "{dev:team}.x", "a..b", "", "a.>.b"]
)
def test_a_pattern_must_begin_with_a_name_and_be_sound(pattern: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        check_pattern(pattern)


@pytest.mark.parametrize("pattern", ["orders", "orders.*", "orders.>", "a.b-c.d_e"])
def test_patterns_below_a_name_may_be_granted(pattern: str) -> None:
    assert check_pattern(pattern) == pattern


def test_a_service_gets_its_own_topics_what_was_asked_for_and_nothing_else() -> None:
    own = ("publish", "subscribe", "replay")
    assert AddedService("payments", 9010).grants() == {"payments": own, "payments.>": own}
    assert PAYMENTS.grants() == {
        "payments": own,
        "payments.>": own,
        "invoices": ("publish",),
        "orders": ("subscribe",),
        "orders.*": ("subscribe",),
    }
    both = AddedService("payments", 9010, ("orders", "payments"), ("orders",))
    assert both.grants()["orders"] == ("publish", "subscribe")
    assert both.grants()["payments"] == own


def test_its_certificate_is_for_clients_only_and_names_it() -> None:
    assert PAYMENTS.leaf.spiffe_id == "spiffe://sidegate-dev/app/payments"
    assert (PAYMENTS.leaf.server, PAYMENTS.leaf.client) == (False, True)


def test_more_is_added_once() -> None:
    more = PAYMENTS.extended(["invoices", "receipts"], ["orders"])
    assert more.publish == ("invoices", "receipts")
    assert more.subscribe == ("orders", "orders.*")


def test_the_registry_reads_what_it_wrote() -> None:
    other = AddedService("billing", 9020)
    assert read_registry(write_registry([PAYMENTS, other])) == (other, PAYMENTS)
    assert read_registry(write_registry([])) == ()


@pytest.mark.parametrize(
    "document",
    [
        [],
        {},
        {"services": []},
        {"services": {"payments": {}}},
        {"services": {"payments": {"port": 0, "publish": [], "subscribe": []}}},
        {"services": {"payments": {"port": "9010", "publish": [], "subscribe": []}}},
        {"services": {"core": {"port": 9010, "publish": [], "subscribe": []}}},
        {"services": {"payments": {"port": 9010, "publish": [">"], "subscribe": []}}},
    ],
)
def test_a_registry_that_makes_no_sense_is_refused(document: object) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        read_registry(json.dumps(document))
    with pytest.raises(ValueError, match="not what"):
        read_registry("{")
