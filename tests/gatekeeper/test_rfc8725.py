"""RFC 8725, JSON Web Token Best Current Practices: each clause, with the attack that it is about.

Every forged token here has a signature that holds wherever the attacker could make one.
"""

import json
from collections.abc import Callable
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from gatekeeper.identity.access_token import read_token, verify_access_token
from gatekeeper.identity.authentication_errors import Reason, TokenRefused
from gatekeeper.identity.base64url import decode_base64url, encode_base64url
from gatekeeper.identity.certificates import load_bundle, verify_peer_chain
from gatekeeper.identity.identity import Identity
from gatekeeper.identity.jws import verify_jws
from gatekeeper.identity.key_set import BadKeySet, parse_key_set
from gatekeeper.identity.trust import IssuerSettings

CORP = IssuerSettings("corp", "https://idp.example", "urn:sidegate", ("ES256", "RS256"))


@pytest.fixture(scope="module")
def caller(root):
    return root.leaf()


@pytest.fixture
def judge(root, caller, mint, now) -> Callable[..., Identity]:
    """All that happens to a token, from its text to an identity."""
    peer = verify_peer_chain(caller.chain, {"example": load_bundle("example", root.pem)}, now)

    def run(compact: str, *keys: dict[str, Any]) -> Identity:
        token = read_token(compact)
        key_set = parse_key_set(json.dumps({"keys": keys or [mint.jwk]}).encode(), CORP.algorithms)
        key = key_set.find(token.jws.kid, token.jws.alg)
        if key is None:
            raise TokenRefused(Reason.KEY_UNKNOWN, "not published")
        return verify_access_token(token, CORP, key, peer, now)

    return run


@pytest.fixture
def refusal(judge) -> Callable[..., Reason]:
    def refuse(compact: str, *keys: dict[str, Any]) -> Reason:
        with pytest.raises(TokenRefused) as caught:
            judge(compact, *keys)
        return caught.value.reason

    return refuse


def test_a_sound_token_passes_so_that_the_refusals_mean_something(judge, mint, caller) -> None:
    assert judge(mint.token(caller.thumbprint)).client_id == "billing"


@pytest.mark.parametrize("alg", ["none", "None", "NONE", "nOnE"])
def test_3_1_an_unsigned_token_is_refused(refusal, mint, caller, alg) -> None:
    header, payload, _ = mint.token(caller.thumbprint, header={"alg": alg}).split(".")
    assert refusal(f"{header}.{payload}.") is Reason.SIGNATURE_INVALID
    assert refusal(f"{header}.{payload}.AAAA") is Reason.ALGORITHM_REFUSED


@pytest.mark.parametrize("form", ["pem", "der", "jwk", "modulus"])
def test_3_1_a_public_rsa_key_is_not_an_hmac_secret(
    refusal, new_mint, caller, rsa_key, form
) -> None:
    issuer = new_mint(alg="RS256", key=rsa_key, kid="r1")
    public = rsa_key.public_key()
    secret = {
        "pem": public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo),
        "der": public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo),
        "jwk": json.dumps(issuer.jwk).encode(),
        "modulus": public.public_numbers().n.to_bytes(256),
    }[form]
    forged = new_mint(alg="HS256", key=secret, kid="r1").token(caller.thumbprint)
    assert refusal(forged, issuer.jwk) is Reason.ALGORITHM_REFUSED


def test_3_1_a_key_is_used_with_its_own_algorithm_only(refusal, new_mint, caller, rsa_key) -> None:
    """RS256 and PS256 use the same numbers; a key that is declared for one is not for the other."""
    declared = new_mint(alg="RS256", key=rsa_key, kid="r1").jwk
    forged = new_mint(alg="PS256", key=rsa_key, kid="r1").token(caller.thumbprint)
    assert refusal(forged, declared) is Reason.ALGORITHM_REFUSED


def test_3_1_only_the_issuers_listed_algorithms_count(refusal, new_mint, caller, mint) -> None:
    other = new_mint(alg="ES384", key=ec.generate_private_key(ec.SECP384R1()), kid="e1")
    assert refusal(other.token(caller.thumbprint), other.jwk, mint.jwk) is Reason.KEY_UNKNOWN


def test_3_2_an_issuer_cannot_be_configured_with_weak_or_symmetric_algorithms() -> None:
    for alg in ("none", "HS256", "RSA1_5", "ES256K"):
        settings = IssuerSettings("corp", "https://idp.example", "urn:sidegate", (alg,))
        assert [key for key, _ in settings.problems()] == ["algorithms"]


def test_3_3_nothing_is_believed_unless_its_signature_holds(refusal, mint, caller) -> None:
    header, payload, signature = mint.token(caller.thumbprint).split(".")
    claims = json.loads(decode_base64url(payload))
    for changed in ({"client_id": "admin"}, {"exp": claims["exp"] + 1}, {"scope": "everything"}):
        forged = encode_base64url(json.dumps({**claims, **changed}).encode())
        assert refusal(f"{header}.{forged}.{signature}") is Reason.SIGNATURE_INVALID
    assert refusal(f"{header}.{payload}.{'A' * 86}") is Reason.SIGNATURE_INVALID


def test_3_3_a_nested_token_is_not_half_checked(refusal, mint, caller) -> None:
    inner = mint.token(caller.thumbprint)
    nested = mint.sign(inner.encode(), {"cty": "JWT"})
    assert refusal(nested) is Reason.TOKEN_WRONG_TYPE


def test_3_4_a_key_whose_point_is_off_the_curve_is_refused(mint) -> None:
    off_curve = {**mint.jwk, "y": encode_base64url(b"\x01" * 32)}
    with pytest.raises(BadKeySet, match="make no key"):
        parse_key_set(json.dumps({"keys": [off_curve]}).encode(), ["ES256"])


def test_3_4_the_point_at_infinity_and_zero_signatures_are_refused(refusal, mint, caller) -> None:
    infinity = {**mint.jwk, "x": encode_base64url(bytes(32)), "y": encode_base64url(bytes(32))}
    with pytest.raises(BadKeySet):
        parse_key_set(json.dumps({"keys": [infinity]}).encode(), ["ES256"])
    signed = mint.token(caller.thumbprint).rpartition(".")[0]
    assert refusal(f"{signed}.{encode_base64url(bytes(64))}") is Reason.SIGNATURE_INVALID


def test_3_5_short_keys_are_refused(mint, new_mint) -> None:
    short = rsa.generate_private_key(65537, 1024)  # noqa: S505 - on purpose
    weak = new_mint(alg="RS256", key=short, kid="weak")
    with pytest.raises(BadKeySet, match="2048 to 8192 bits"):
        parse_key_set(json.dumps(weak.jwks).encode(), ["RS256"])
    password = {"kty": "oct", "k": encode_base64url(b"correct horse battery")}
    with pytest.raises(TokenRefused, match="at least 32 bytes"):
        verify_jws(password, mint.sign(b"x"))


def test_3_6_encrypted_and_compressed_tokens_are_refused(refusal) -> None:
    header = encode_base64url(b'{"alg":"dir","enc":"A256GCM","zip":"DEF"}')
    assert refusal(f"{header}..AAAA.AAAA.AAAA") is Reason.TOKEN_MALFORMED


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-32", "utf-8-sig", "latin-1"])
def test_3_7_only_utf_8_is_read(refusal, mint, caller, encoding) -> None:
    payload = json.dumps(mint.claims(caller.thumbprint, team="é"), ensure_ascii=False)
    assert refusal(mint.sign(payload.encode(encoding))) is Reason.TOKEN_MALFORMED
    header = json.dumps({"alg": "ES256", "typ": "at+jwt", "note": "é"}, ensure_ascii=False)
    forged = mint.sign_raw(header.encode(encoding), payload.encode())
    assert refusal(forged) is Reason.TOKEN_MALFORMED


def test_3_8_a_key_counts_only_for_its_own_issuer(refusal, mint, new_mint, caller) -> None:
    stranger = new_mint(issuer="https://evil.example", kid=mint.kid)
    assert refusal(stranger.token(caller.thumbprint)) is Reason.SIGNATURE_INVALID
    assert refusal(mint.token(caller.thumbprint, iss="https://evil.example")) is (
        Reason.UNKNOWN_ISSUER
    )


@pytest.mark.parametrize("subject", ["", None, 7, ["billing"]])
def test_3_8_a_subject_is_a_name(refusal, mint, caller, subject) -> None:
    reason = refusal(mint.token(caller.thumbprint, sub=subject))
    assert reason in (Reason.CLAIM_MISSING, Reason.CLAIM_MALFORMED)


@pytest.mark.parametrize("audience", ["urn:other", [], ["urn:other"], "urn:sidegate-staging"])
def test_3_9_a_token_for_another_audience_is_refused(refusal, mint, caller, audience) -> None:
    assert refusal(mint.token(caller.thumbprint, aud=audience)) is Reason.WRONG_AUDIENCE


def test_3_9_a_token_without_audience_is_refused(refusal, mint, caller) -> None:
    assert refusal(mint.token(caller.thumbprint, aud=mint.absent)) is Reason.CLAIM_MISSING


@pytest.mark.parametrize(
    "kid",
    [
        "../../etc/passwd",
        "k1' OR '1'='1",
        "k1\x00",
        "http://169.254.169.254/",
        "$(id)",
        "K1",
        "k1 ",
    ],
)
def test_3_10_a_key_name_is_compared_and_nothing_else(refusal, mint, caller, kid) -> None:
    assert refusal(mint.token(caller.thumbprint, header={"kid": kid})) is Reason.KEY_UNKNOWN


@pytest.mark.parametrize("member", ["jku", "x5u"])
def test_3_10_no_address_in_a_header_is_followed(refusal, mint, caller, member) -> None:
    token = mint.token(caller.thumbprint, header={member: "https://169.254.169.254/keys"})
    assert refusal(token) is Reason.TOKEN_HEADER_REFUSED


def test_3_10_no_key_in_a_header_is_used(refusal, new_mint, caller) -> None:
    attacker = new_mint()
    for member in ({"jwk": attacker.jwk}, {"x5c": [encode_base64url(b"certificate")]}):
        token = attacker.token(caller.thumbprint, header=member)
        assert refusal(token) is Reason.TOKEN_HEADER_REFUSED


@pytest.mark.parametrize("typ", [None, "JWT", "id_token+jwt", "logout+jwt", "dpop+jwt"])
def test_3_11_the_type_must_be_that_of_an_access_token(refusal, mint, caller, typ) -> None:
    token = mint.token(caller.thumbprint, header={"typ": typ})
    assert refusal(token) is Reason.TOKEN_WRONG_TYPE


def test_3_12_an_id_token_of_the_same_issuer_and_key_is_refused(refusal, mint, caller) -> None:
    claims = mint.claims(caller.thumbprint, aud="billing", nonce="n", azp="billing")
    id_token = mint.sign(json.dumps(claims).encode(), {"typ": "JWT"})
    assert refusal(id_token) is Reason.TOKEN_WRONG_TYPE
    retyped = mint.sign(json.dumps(claims).encode())
    assert refusal(retyped) is Reason.WRONG_AUDIENCE


def test_3_12_a_clients_own_assertion_is_refused(refusal, mint, caller, new_mint) -> None:
    """A `private_key_jwt` assertion names the client as its issuer."""
    client = new_mint(issuer="billing", kid=mint.kid)
    assertion = client.token(caller.thumbprint, aud=mint.issuer)
    assert refusal(assertion) is Reason.SIGNATURE_INVALID
