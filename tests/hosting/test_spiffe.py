"""A SPIFFE id is read strictly, and a certificate has exactly one."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hosting.spiffe import (
    NotSpiffe,
    parse_spiffe_id,
    parse_trust_domain,
    spiffe_id_of,
    trust_domain_of,
)
from hosting.tls import TlsFiles

ID = "spiffe://example.org/app/one"


@pytest.mark.parametrize(
    "text",
    [ID, "spiffe://a/b", "spiffe://a_b.c-9/A.b_c-D/...", "spiffe://a/" + "x" * 2000],
)
def test_an_id_is_read_as_it_is_written(text: str) -> None:
    assert parse_spiffe_id(text) == text


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "begin"),
        ("https://example.org/app", "begin"),
        ("SPIFFE://example.org/app", "begin"),
        ("spiffe://example.org", "no path"),
        ("spiffe://example.org/", "no path"),
        ("spiffe:///app", "may not be empty"),
        ("spiffe://Example.org/app", "lower-case"),
        ("spiffe://example.org:443/app", "lower-case"),
        ("spiffe://user@example.org/app", "lower-case"),
        ("spiffe://[::1]/app", "lower-case"),
        ("spiffe://" + "a" * 256 + "/x", "255"),
        ("spiffe://example.org/a//b", "empty or relative"),
        ("spiffe://example.org/a/", "empty or relative"),
        ("spiffe://example.org/./a", "empty or relative"),
        ("spiffe://example.org/../a", "empty or relative"),
        ("spiffe://example.org/a?b", "letters"),
        ("spiffe://example.org/a#b", "letters"),
        ("spiffe://example.org/a%2Fb", "letters"),
        ("spiffe://example.org/ä", "letters"),
        ("spiffe://example.org/a\n", "letters"),
        ("spiffe://example.org/" + "a" * 2048, "2048"),
    ],
)
def test_what_the_standard_forbids_is_refused_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(NotSpiffe, match=reason):
        parse_spiffe_id(text)


@given(st.text())
def test_no_text_is_taken_for_an_id_with_anything_to_normalise(text: str) -> None:
    for candidate in (text, f"spiffe://{text}", f"spiffe://example.org/{text}"):
        with suppress(NotSpiffe):
            parsed = parse_spiffe_id(candidate)
            assert parsed.isascii()
            assert not set(parsed) & set("%?#@ \\")


def test_the_trust_domain_of_an_id_is_its_host() -> None:
    assert trust_domain_of(ID) == "example.org"
    assert parse_trust_domain("example.org") == "example.org"


def test_a_leaf_certificate_names_one_workload(
    authority: Any, der_of: Callable[[TlsFiles], bytes]
) -> None:
    assert spiffe_id_of(der_of(authority.issue("leaf", ID))) == ID


@pytest.mark.parametrize(
    ("uris", "reason"),
    [
        ((), "has 0 URIs"),
        ((ID, "spiffe://example.org/other"), "has 2 URIs"),
        ((ID, "https://example.org"), "has 2 URIs"),
        (("https://example.org/app",), "begin"),
        (("spiffe://example.org",), "no path"),
    ],
)
def test_a_certificate_without_exactly_one_id_is_refused(
    uris: tuple[str, ...],
    reason: str,
    authority: Any,
    der_of: Callable[[TlsFiles], bytes],
) -> None:
    with pytest.raises(NotSpiffe, match=reason):
        spiffe_id_of(der_of(authority.issue("leaf", *uris)))


def test_an_authority_identifies_no_workload(
    authority: Any, der_of: Callable[[TlsFiles], bytes]
) -> None:
    with pytest.raises(NotSpiffe, match="is an authority's"):
        spiffe_id_of(der_of(authority.issue("sub", ID, authority=True)))
    with pytest.raises(NotSpiffe, match="may sign certificates"):
        spiffe_id_of(der_of(authority.issue("signer", ID, signs=True)))


@given(st.binary(max_size=100))
def test_bytes_that_are_no_certificate_are_refused(der: bytes) -> None:
    with pytest.raises(NotSpiffe, match="can't be read"):
        spiffe_id_of(der)
