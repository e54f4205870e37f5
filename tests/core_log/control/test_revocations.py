"""Revocations: what is one, which are in force, and what a gatekeeper has not heard of."""

from dataclasses import replace

import pytest

from core_log.control.revocations import (
    KEPT_AFTER_END_US,
    BadRevocation,
    Revocation,
    newer_than,
    parse_revocation,
    parse_revocation_record,
    revocation_json,
    revocation_record,
)

TOKEN = Revocation("token_id", "abc", "https://issuer.example", 100, "leaked", 10, 1)


def test_a_request_becomes_a_revocation_with_time_and_version() -> None:
    value = {"kind": "token_id", "value": "abc", "issuer": "https://issuer.example"}
    asked = parse_revocation({**value, "until_us": 100, "reason": "leaked"}, now_us=10, version=1)
    assert asked == TOKEN
    forever = parse_revocation({"kind": "client", "value": "x"}, now_us=10, version=2)
    assert (forever.issuer, forever.until_us, forever.reason) == (None, None, None)


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (7, "must be a JSON object"),
        ({}, "kind: is missing; value: is missing"),
        ({"kind": "person", "value": "x"}, "kind: must be one of token_id, client, certificate"),
        ({"kind": "client", "value": ""}, "value: must be a string"),
        ({"kind": "client", "value": "x" * 513}, "1 to 512 bytes"),
        ({"kind": "client", "value": "x", "until_us": -5}, "until_us: must be an integer"),
        ({"kind": "client", "value": "x", "at_us": 5}, "at_us: is not known here"),
    ],
)
def test_a_bad_revocation_is_refused_with_the_reason(value: object, problem: str) -> None:
    with pytest.raises(BadRevocation) as caught:
        parse_revocation(value, now_us=10, version=1)
    assert problem in str(caught.value)


def test_a_record_reads_back_as_the_same_revocation() -> None:
    assert parse_revocation_record(revocation_record(TOKEN)) == TOKEN
    assert "version" not in revocation_json(TOKEN)


def test_a_revocation_ends_at_its_end() -> None:
    assert TOKEN.in_force(99)
    assert not TOKEN.in_force(100)
    assert replace(TOKEN, until_us=None).in_force(10**18)


def test_a_gatekeeper_hears_of_what_is_newer_in_order() -> None:
    known = [replace(TOKEN, value=str(version), version=version) for version in (3, 1, 2)]
    heard = newer_than(known, 1, newest=3)
    assert [each.version for each in heard] == [2, 3]


def test_one_that_has_ended_is_kept_until_every_gatekeeper_knows() -> None:
    assert not TOKEN.forgettable(100)
    assert TOKEN.forgettable(100 + KEPT_AFTER_END_US)
    assert not replace(TOKEN, until_us=None).forgettable(10**18)


def test_a_version_from_another_life_of_the_log_gets_everything() -> None:
    assert newer_than([TOKEN], 50, newest=1) == [TOKEN]
    assert newer_than([TOKEN], 1, newest=1) == []
