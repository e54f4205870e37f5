"""RFC 9068 and RFC 8705: what a token must say, and what it must not get away with."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gatekeeper.identity.access_token import read_token, verify_access_token
from gatekeeper.identity.authentication_errors import Reason, TokenRefused
from gatekeeper.identity.base64url import encode_base64url
from gatekeeper.identity.certificates import PeerCertificate, load_bundle, verify_peer_chain
from gatekeeper.identity.identity import Identity
from gatekeeper.identity.jwk import load_jwk
from gatekeeper.identity.trust import IssuerSettings

CORP = IssuerSettings("corp", "https://idp.example", "urn:sidegate")
UNBOUND = replace(CORP, binding="off")
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=6,
)


@pytest.fixture(scope="module")
def peer(root) -> PeerCertificate:
    leaf = root.leaf()
    return verify_peer_chain(leaf.chain, {"example": load_bundle("example", root.pem)}, 1.8e9)


@pytest.fixture
def verify(mint, peer, now) -> Callable[..., Identity]:
    """Make a token with changed claims and verify it."""

    def made(
        corp: IssuerSettings = CORP,
        *,
        at: float = now,
        header: dict[str, Any] | None = None,
        bound_to: bytes | None = peer.thumbprint,
        **changed: Any,
    ) -> Identity:
        token = read_token(mint.token(bound_to, now, header=header, **changed))
        return verify_access_token(token, corp, load_jwk(mint.jwk), peer, at)

    return made


@pytest.fixture
def refusal(verify) -> Callable[..., Reason]:
    def refuse(*arguments: Any, **changed: Any) -> Reason:
        with pytest.raises(TokenRefused) as caught:
            verify(*arguments, **changed)
        return caught.value.reason

    return refuse


def test_a_sound_token_proves_its_client(verify, peer, now) -> None:
    identity = verify()
    assert identity == Identity(
        spiffe_id="spiffe://example/app",
        thumbprint=peer.thumbprint,
        issuer="corp",
        issuer_url="https://idp.example",
        client_id="billing",
        subject="billing",
        token_id="token-1",
        scopes=frozenset({"log.publish", "log.read"}),
        expires_at=now + 630,
        claims=identity.claims,
    )
    assert identity.claims["team"] == "pay"
    with pytest.raises(TypeError):
        identity.claims["team"] = "other"  # type: ignore[index]


@pytest.mark.parametrize("typ", ["at+jwt", "AT+JWT", "application/at+jwt"])
def test_both_names_of_the_type_are_known(verify, typ) -> None:
    assert verify(header={"typ": typ})


@pytest.mark.parametrize(
    "typ", [None, "JWT", "jwt", "at", "at+jwt ", "logout+jwt", "dpop+jwt", "secevent+jwt", "id+jwt"]
)
def test_other_tokens_of_the_same_issuer_are_refused(refusal, typ) -> None:
    assert refusal(header={"typ": typ}) is Reason.TOKEN_WRONG_TYPE


def test_nested_tokens_are_refused(refusal) -> None:
    assert refusal(header={"cty": "JWT"}) is Reason.TOKEN_WRONG_TYPE


@pytest.mark.parametrize("claim", ["iss", "aud", "exp", "iat", "sub", "client_id", "jti"])
def test_every_claim_that_rfc_9068_requires_is_required(refusal, mint, claim) -> None:
    assert refusal(**{claim: mint.absent}) is Reason.CLAIM_MISSING
    assert refusal(**{claim: None}) is Reason.CLAIM_MISSING


@pytest.mark.parametrize("claim", ["iss", "sub", "client_id", "jti"])
@pytest.mark.parametrize(
    "value", ["", 7, True, ["a"], {"a": 1}, "x" * 513, "é" * 257, "a\nb", "a\x00b", "a\u2028b"]
)
def test_names_are_strings_of_a_bounded_length_without_control_characters(
    refusal, claim, value
) -> None:
    assert refusal(**{claim: value}) is Reason.CLAIM_MALFORMED


@pytest.mark.parametrize(
    "issuer",
    [
        "https://idp.example/",
        "https://IDP.example",
        "https://idp.example.evil.example",
        "http://idp.example",
        "corp",
    ],
)
def test_the_issuer_is_compared_by_the_letter(refusal, issuer) -> None:
    assert refusal(iss=issuer) is Reason.UNKNOWN_ISSUER


@pytest.mark.parametrize("audience", ["urn:sidegate", ["urn:sidegate"], ["urn:x", "urn:sidegate"]])
def test_the_audience_may_be_one_or_among_several(verify, audience) -> None:
    assert verify(aud=audience)


@pytest.mark.parametrize(
    "audience", ["urn:other", "urn:sidegate/", "URN:SIDEGATE", "urn", "", [], ["urn:other"]]
)
def test_a_token_for_another_service_is_refused(refusal, audience) -> None:
    assert refusal(aud=audience) is Reason.WRONG_AUDIENCE


@pytest.mark.parametrize(
    "audience", [7, {"urn:sidegate": 1}, ["urn:sidegate", 7], [["urn:sidegate"]], ["a"] * 65]
)
def test_a_malformed_audience_is_refused(refusal, audience) -> None:
    assert refusal(aud=audience) is Reason.CLAIM_MALFORMED


def test_a_token_ends_with_its_expiry_and_the_skew(verify, refusal, now) -> None:
    assert verify(at=now + 629)
    assert refusal(at=now + 630) is Reason.TOKEN_EXPIRED
    assert refusal(replace(CORP, skew_s=0), at=now + 600) is Reason.TOKEN_EXPIRED


def test_a_token_does_not_begin_early(verify, refusal, now) -> None:
    assert verify(iat=now + 30)
    assert refusal(iat=now + 31) is Reason.TOKEN_NOT_YET_VALID
    assert verify(nbf=now + 30)
    assert refusal(nbf=now + 31) is Reason.TOKEN_NOT_YET_VALID


def test_a_token_that_lives_too_long_is_refused(verify, refusal, now) -> None:
    assert verify(iat=now, exp=now + 900)
    assert refusal(iat=now, exp=now + 901) is Reason.TOKEN_LIVES_TOO_LONG
    assert refusal(exp=now + 10 * 365 * 86_400) is Reason.TOKEN_LIVES_TOO_LONG


def test_a_token_that_ends_before_it_begins_is_refused(refusal, now) -> None:
    assert refusal(iat=now + 20, exp=now + 10) is Reason.CLAIM_MALFORMED


@pytest.mark.parametrize("claim", ["exp", "iat", "nbf"])
@pytest.mark.parametrize("value", ["1800000000", True, False, [], {}, -1, 1e300, 253_402_300_800])
def test_dates_are_numbers_in_a_sane_range(refusal, claim, value) -> None:
    assert refusal(**{claim: value}) is Reason.CLAIM_MALFORMED


def test_fractions_of_a_second_are_taken(verify, now) -> None:
    assert verify(exp=now + 600.5).expires_at == now + 630.5


def test_a_token_without_scope_has_none(verify, mint) -> None:
    assert verify(scope=mint.absent).scopes == frozenset()
    assert verify(scope="").scopes == frozenset()


@pytest.mark.parametrize(
    "scope",
    [["a"], 7, " a", "a ", "a  b", "a\tb", 'a"b', "a\\b", "é", " ".join(map(str, range(257)))],
)
def test_a_malformed_scope_is_refused(refusal, scope) -> None:
    assert refusal(scope=scope) is Reason.CLAIM_MALFORMED


def test_an_unbound_token_is_refused_unless_its_issuer_cannot_bind(verify, refusal) -> None:
    assert refusal(bound_to=None) is Reason.TOKEN_NOT_BOUND
    assert refusal(cnf={}) is Reason.TOKEN_NOT_BOUND
    assert refusal(cnf={"unknown": "x"}) is Reason.TOKEN_NOT_BOUND
    assert verify(UNBOUND, bound_to=None)


@pytest.mark.parametrize("corp", [CORP, UNBOUND], ids=["required", "off"])
def test_a_stolen_bound_token_is_refused_with_another_certificate(refusal, corp) -> None:
    assert refusal(corp, bound_to=bytes(32)) is Reason.BOUND_TO_ANOTHER_CERTIFICATE


@pytest.mark.parametrize("corp", [CORP, UNBOUND], ids=["required", "off"])
@pytest.mark.parametrize("binding", ["jkt", "jwk", "jwe", "jku", "kid"])
def test_a_binding_that_cannot_be_checked_is_not_ignored(refusal, corp, binding) -> None:
    assert refusal(corp, cnf={binding: "x"}) is Reason.TOKEN_BINDING_UNSUPPORTED


def test_a_truncated_thumbprint_is_refused(refusal, peer) -> None:
    short = encode_base64url(peer.thumbprint[:31])
    assert refusal(cnf={"x5t#S256": short}) is Reason.BOUND_TO_ANOTHER_CERTIFICATE
    assert refusal(cnf={"x5t#S256": ""}) is Reason.BOUND_TO_ANOTHER_CERTIFICATE


def test_a_malformed_binding_is_refused(refusal, peer) -> None:
    text = encode_base64url(peer.thumbprint)
    for confirmation in (
        "text",
        7,
        None,
        [text],
        {"x5t#S256": 7},
        {"x5t#S256": [text]},
        {"x5t#S256": text + "="},
        {"x5t#S256": peer.thumbprint.hex(":")},
    ):
        assert refusal(cnf=confirmation) is Reason.CLAIM_MALFORMED


def test_a_hexadecimal_thumbprint_is_not_the_thumbprint(refusal, peer) -> None:
    reason = refusal(cnf={"x5t#S256": peer.thumbprint.hex()})
    assert reason is Reason.BOUND_TO_ANOTHER_CERTIFICATE


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"[]",
        b'"text"',
        b"{",
        b'{"iss":"https://idp.example","iss":"https://idp.example"}',
        b'{"iss":"https://idp.example","cnf":{"x5t#S256":"a","x5t#S256":"b"}}',
        '{"iss":"https://idp.example"}'.encode("utf-16"),
        b'{"iss":' + b"[" * 20 + b"]" * 20 + b"}",
    ],
    ids=repr,
)
def test_a_payload_that_two_readers_could_read_differently_is_refused(mint, payload) -> None:
    with pytest.raises(TokenRefused) as caught:
        read_token(mint.sign(payload))
    assert caught.value.reason is Reason.TOKEN_MALFORMED


def test_deep_and_wide_claims_are_refused(refusal) -> None:
    deep: Any = "x"
    for _ in range(10):
        deep = {"a": deep}
    assert refusal(roles=deep) is Reason.TOKEN_MALFORMED
    assert refusal(roles=["r"] * 3000) is Reason.TOKEN_TOO_LARGE


def test_the_signature_is_checked_before_any_claim(mint, new_mint, peer, now) -> None:
    token = read_token(new_mint(kid="k1").token(None, aud="urn:other"))
    with pytest.raises(TokenRefused) as caught:
        verify_access_token(token, CORP, load_jwk(mint.jwk), peer, now)
    assert caught.value.reason is Reason.SIGNATURE_INVALID


def test_an_algorithm_that_the_issuer_may_not_use_is_refused(refusal) -> None:
    assert refusal(replace(CORP, algorithms=("RS256",))) is Reason.ALGORITHM_REFUSED


def test_messages_hold_neither_token_nor_claims(verify, mint, peer, now) -> None:
    for changed in ({"aud": "urn:" + "x" * 2000}, {"iss": "https://x\u202e.example"}):
        with pytest.raises(TokenRefused) as caught:
            verify(secret="do not show", **changed)
        assert "do not show" not in str(caught.value)
        assert str(caught.value).isascii()
        assert len(str(caught.value)) < 400


@given(
    claim=st.sampled_from(
        ["iss", "aud", "exp", "iat", "nbf", "sub", "client_id", "jti", "scope", "cnf"]
    ),
    value=JSON,
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_any_value_of_any_claim_is_taken_or_refused_with_a_reason(verify, claim, value) -> None:
    try:
        identity = verify(**{claim: value})
    except TokenRefused:
        return
    assert identity.issuer_url == CORP.issuer
    assert identity.expires_at <= 1.8e9 + CORP.max_ttl_s + 2 * CORP.skew_s
    assert claim not in ("iss", "cnf") or identity.claims[claim] == value


def test_what_was_read_shows_no_claims(mint) -> None:
    assert "token-1" not in repr(read_token(mint.token(None)))
