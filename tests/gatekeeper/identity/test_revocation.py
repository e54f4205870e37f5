"""The control log's revocations: read strictly, swapped whole, ended in time."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatekeeper.identity import revocation
from gatekeeper.identity.authentication_errors import CertificateRefused, Reason, TokenRefused
from gatekeeper.identity.certificates import PathLink, PeerCertificate
from gatekeeper.identity.identity import Identity
from gatekeeper.identity.revocation import (
    BadRevocation,
    Revocation,
    RevocationSet,
    parse_revocation,
)

NOW = 1_800_000_000.0
CALLER = Identity(
    spiffe_id="spiffe://example/app",
    thumbprint=bytes(32),
    issuer="corp",
    issuer_url="https://idp.example",
    client_id="billing",
    subject="billing",
    token_id="token-1",
    scopes=frozenset(),
    expires_at=NOW + 600,
)
PEER = PeerCertificate(
    spiffe_id="spiffe://example/app",
    trust_domain="example",
    thumbprint=bytes(32),
    serial=0xABC,
    issuer_name="CN=root",
    not_after=NOW + 600,
    path_not_before=NOW - 600,
    path_not_after=NOW + 600,
    links=(PathLink(0xABC, b"i", b"k", True), PathLink(0xCA, b"r", b"k", True)),
    chain=(b"der",),
)


def revoked(*entries: Revocation) -> RevocationSet:
    return RevocationSet().extended(1, entries, NOW)


def token_refusal(entries: RevocationSet, identity: Identity = CALLER) -> Reason | None:
    try:
        entries.check_token(identity, NOW)
    except TokenRefused as error:
        return error.reason
    return None


def test_nothing_is_revoked_at_first() -> None:
    RevocationSet().check_certificate(PEER, NOW)
    assert token_refusal(RevocationSet()) is None


@pytest.mark.parametrize("issuer", [None, "corp", "https://idp.example"])
def test_a_token_is_revoked_by_its_id_under_its_issuer(issuer) -> None:
    entries = revoked(Revocation("token_id", "token-1", issuer))
    assert token_refusal(entries) is Reason.TOKEN_REVOKED
    assert token_refusal(entries, replace(CALLER, token_id="token-2")) is None


def test_another_issuers_token_of_the_same_id_goes_on() -> None:
    assert token_refusal(revoked(Revocation("token_id", "token-1", "partner"))) is None


def test_a_revoked_client_gets_in_with_no_token() -> None:
    entries = revoked(Revocation("client", "billing", "corp", reason="left the company"))
    for token_id in ("token-1", "token-2"):
        identity = replace(CALLER, token_id=token_id)
        assert token_refusal(entries, identity) is Reason.CLIENT_REVOKED
    assert token_refusal(entries, replace(CALLER, client_id="shipping")) is None
    with pytest.raises(TokenRefused, match="left the company"):
        entries.check_token(CALLER, NOW)


@pytest.mark.parametrize("serial", ["abc", "ca"])
@pytest.mark.parametrize("domain", [None, "example"])
def test_a_certificate_is_revoked_by_its_serial_or_that_of_a_ca_above(serial, domain) -> None:
    entries = revoked(Revocation("certificate", serial, domain))
    with pytest.raises(CertificateRefused) as caught:
        entries.check_certificate(PEER, NOW)
    assert caught.value.reason is Reason.CERTIFICATE_REVOKED


def test_the_same_serial_in_another_domain_goes_on() -> None:
    revoked(Revocation("certificate", "abc", "other")).check_certificate(PEER, NOW)


def test_a_revocation_ends_when_it_says_and_is_dropped_then() -> None:
    entries = revoked(Revocation("client", "billing", until=NOW + 10))
    assert token_refusal(entries) is Reason.CLIENT_REVOKED
    entries.check_token(CALLER, NOW + 10)
    assert len(entries.extended(2, [], NOW + 9).by_value) == 1
    assert len(entries.extended(2, [], NOW + 10).by_value) == 0


def test_a_set_never_changes() -> None:
    before = revoked(Revocation("client", "billing"))
    after = before.extended(7, [Revocation("client", "shipping")], NOW)
    assert (before.version, after.version) == (1, 7)
    assert len(before.by_value) == 1
    assert len(after.by_value) == 2


def test_a_later_record_about_the_same_thing_replaces_the_earlier() -> None:
    entries = revoked(
        Revocation("client", "billing", "corp"),
        Revocation("client", "billing", "corp", until=NOW + 5),
        Revocation("client", "billing", "partner"),
    )
    assert [entry.until for entry in entries.by_value["client", "billing"]] == [NOW + 5, None]
    entries.check_token(CALLER, NOW + 5)


def test_a_later_record_that_has_ended_lifts_the_earlier() -> None:
    before = revoked(Revocation("client", "billing"), Revocation("client", "billing", "corp"))
    lifted = before.extended(2, [Revocation("client", "billing", until=NOW - 1)], NOW)
    assert [entry.issuer for entry in lifted.by_value["client", "billing"]] == ["corp"]
    lifted = lifted.extended(3, [Revocation("client", "billing", "corp", until=NOW)], NOW)
    assert lifted.by_value == {}


def test_the_number_of_revocations_is_bounded() -> None:
    many = (Revocation("token_id", str(n)) for n in range(revocation.REVOCATIONS_MAX + 1))
    with pytest.raises(BadRevocation, match="in force"):
        RevocationSet().extended(1, many, NOW)


def test_records_of_the_wire_are_read() -> None:
    record = {
        "kind": "token_id",
        "value": "t",
        "issuer": "corp",
        "until_us": 1_500_000,
        "reason": "stolen",
        "at_us": 1,
    }
    assert parse_revocation(record) == Revocation("token_id", "t", "corp", 1.5, "stolen")
    assert parse_revocation({"kind": "client", "value": "c"}) == Revocation("client", "c")


@pytest.mark.parametrize("text", ["0A:BC", "0xabc", "ABC", "000abc"])
def test_serials_are_read_as_tools_print_them(text) -> None:
    assert parse_revocation({"kind": "certificate", "value": text}).value == "abc"


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "principal"},
        {"kind": None},
        {"kind": ["client"]},
        {"value": ""},
        {"value": None},
        {"value": 7},
        {"value": "x" * 513},
        {"issuer": ""},
        {"issuer": 7},
        {"until_us": "soon"},
        {"until_us": True},
        {"until_us": 1.5},
        {"reason": 7},
        {"kind": "certificate", "value": "not hex"},
        {"kind": "certificate", "value": "-1"},
        {"kind": "certificate", "value": "::"},
        {"kind": "certificate", "value": "a_b"},
    ],
    ids=str,
)
def test_a_record_that_is_not_understood_is_never_skipped(change: dict[str, Any]) -> None:
    with pytest.raises(BadRevocation):
        parse_revocation({"kind": "client", "value": "c", **change})


@given(
    st.dictionaries(
        st.sampled_from(["kind", "value", "issuer", "until_us", "reason"]),
        st.one_of(
            st.none(),
            st.integers(),
            st.text(max_size=5),
            st.sampled_from(["client", "certificate"]),
        ),
    )
)
def test_any_record_is_read_or_refused(record: dict[str, object]) -> None:
    try:
        parsed = parse_revocation(record)
    except BadRevocation:
        return
    assert parsed.kind == record["kind"]
