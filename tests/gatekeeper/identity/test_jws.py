"""Signed text: the public vectors, and everything that RFC 7515 forbids and parsers let through."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gatekeeper.identity.authentication_errors import AuthenticationError, Reason, TokenRefused
from gatekeeper.identity.base64url import encode_base64url
from gatekeeper.identity.jws import TOKEN_CHARS_MAX, parse_compact, verify_jws

VECTORS = "wycheproof_json_web_signature_test.json"
REFUSED_BY_ALL = {346, 347, 350, 351, 372, 373}
"""Called valid by the file and refused by every major library: the key names another algorithm
than the signature's (346, 350), one that does not exist (347, 351), or the encoding holds a
character that base64url does not have (372, 373)."""
MISLABELLED = {367: 357, 370: 357}
"""Called invalid, but byte for byte the same key and text as a case called valid: the padding that
their names speak of is not in the file (C2SP/wycheproof, issue 236)."""


@pytest.fixture(scope="module")
def vectors() -> dict[int, tuple[dict[str, Any], str, bool]]:
    """By number: key, text, and whether the file calls it valid."""
    folder = os.environ.get("SIDEGATE_VECTORS")
    if not folder:
        pytest.skip(f"set SIDEGATE_VECTORS to the folder of {VECTORS} to run the public vectors")
    document = json.loads((Path(folder) / VECTORS).read_text())
    return {
        case["tcId"]: (
            group.get("public") or group["private"],
            case["jws"],
            case["result"] == "valid",
        )
        for group in document["testGroups"]
        for case in group["tests"]
    }


def accepted(key: dict[str, Any], compact: str) -> bool:
    try:
        verify_jws(key, compact)
    except TokenRefused:
        return False
    return True


def test_all_public_vectors_are_judged_as_labelled(vectors) -> None:
    assert len(vectors) == 401
    wrong = {
        number
        for number, (key, compact, valid) in vectors.items()
        if accepted(key, compact) != (valid and number not in REFUSED_BY_ALL)
    }
    assert wrong == set(MISLABELLED)


def test_the_two_vectors_that_are_judged_otherwise_are_copies_of_a_valid_one(vectors) -> None:
    for number, original in MISLABELLED.items():
        assert vectors[number][:2] == vectors[original][:2]
        assert vectors[original][2]
        assert not vectors[number][2]


def refusal(jwk: dict[str, Any], compact: Any, **options: Any) -> Reason:
    with pytest.raises(TokenRefused) as caught:
        verify_jws(jwk, compact, **options)
    return caught.value.reason


def test_a_sound_text_gives_its_payload(mint) -> None:
    assert verify_jws(mint.jwk, mint.sign(b"any bytes \xff")) == b"any bytes \xff"
    assert verify_jws(mint.jwk, mint.sign(b"")) == b""


def test_hs256_verifies_unless_the_callers_list_excludes_it(new_mint) -> None:
    secret = new_mint(alg="HS256", key=b"s" * 32)
    compact = secret.sign(b"payload")
    assert verify_jws(secret.jwk, compact) == b"payload"
    reason = refusal(secret.jwk, compact, algorithms=["ES256", "RS256"])
    assert reason is Reason.ALGORITHM_REFUSED


@pytest.mark.parametrize("alg", ["none", "NONE", "None", "nOnE", "", "es256", "ES256 ", None, 7])
def test_no_spelling_of_none_and_no_unknown_algorithm_passes(mint, alg) -> None:
    header = json.dumps({"alg": alg}).encode()
    assert refusal(mint.jwk, mint.sign_raw(header, b"x")) is Reason.ALGORITHM_REFUSED
    unsigned = f"{encode_base64url(header)}.{encode_base64url(b'x')}."
    assert refusal(mint.jwk, unsigned) is Reason.SIGNATURE_INVALID


def test_a_header_without_algorithm_is_refused(mint) -> None:
    assert refusal(mint.jwk, mint.sign_raw(b"{}", b"x")) is Reason.ALGORITHM_REFUSED


@pytest.mark.parametrize("alg", ["HS256", "RS256", "ES384", "EdDSA", "PS256"])
def test_the_key_decides_the_algorithm_not_the_header(mint, alg) -> None:
    compact = mint.sign(b"x", {"alg": alg})
    assert refusal(mint.jwk, compact) is Reason.ALGORITHM_REFUSED


def test_a_public_key_is_never_taken_for_an_hmac_secret(mint, new_mint) -> None:
    """The classic confusion: HS256 with the issuer's public key, in every form, as the secret."""
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    public = mint.key.public_key()
    for secret in (
        public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo),
        public.public_bytes(Encoding.X962, PublicFormat.UncompressedPoint),
        json.dumps(mint.jwk).encode(),
    ):
        forged = new_mint(alg="HS256", key=secret).sign(b"x")
        assert refusal(mint.jwk, forged) is Reason.ALGORITHM_REFUSED


@pytest.mark.parametrize(
    "member",
    [
        {"jku": "https://evil.example/jwks"},
        {"x5u": "https://evil.example/cert"},
        {"x5c": ["MIIB"]},
        {"jwk": {"kty": "EC"}},
        {"jwk": None},
        {"crit": ["exp"]},
        {"crit": []},
        {"crit": "b64"},
        {"b64": False, "crit": ["b64"]},
        {"b64": True},
    ],
    ids=str,
)
def test_embedded_keys_and_extensions_are_refused_although_the_signature_holds(
    mint, member
) -> None:
    header = json.dumps({"alg": "ES256", **member}).encode()
    assert refusal(mint.jwk, mint.sign_raw(header, b"x")) is Reason.TOKEN_HEADER_REFUSED


@pytest.mark.parametrize(
    "header",
    [
        b'{"alg":"ES256","alg":"ES256"}',
        b'{"alg":"none","alg":"ES256"}',
        b'{"alg":"ES256","x":{"a":1,"a":2}}',
        b'{"alg":"ES256","kid":7}',
        b'{"alg":"ES256","kid":""}',
        b'{"alg":"ES256","kid":null}',
        b'{"alg":"ES256","typ":7}',
        b'{"alg":"ES256","typ":["at+jwt"]}',
        b'["ES256"]',
        b"null",
        b"",
        b'{"alg":"ES256"',
        b'{"alg":"ES256"}{}',
        '{"alg":"ES256"}'.encode("utf-16-le"),
        b'\xef\xbb\xbf{"alg":"ES256"}',
        b'{"alg":"ES256","a":' + b"[" * 20 + b"]" * 20 + b"}",
    ],
    ids=repr,
)
def test_a_header_that_two_readers_could_read_differently_is_refused(mint, header) -> None:
    assert refusal(mint.jwk, mint.sign_raw(header, b"x")) is Reason.TOKEN_MALFORMED


def respellings(compact: str) -> Iterator[str]:
    """Other texts that lenient decoders take for the same token."""
    header, payload, signature = compact.split(".")
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    yield f"{header}.{payload}.{signature}=="
    yield f"{header}=.{payload}.{signature}"
    yield f"{header}.{payload}=.{signature}"
    yield f"{header}.{payload}.{signature}\n"
    yield f" {compact}"
    yield f"{compact} "
    yield f"{header}.{payload}.{signature[:10]}\n{signature[10:]}"
    yield f"{header}.{payload}.{signature[:10]}!{signature[10:]}"
    yield f"{header}.{payload}.{signature.replace('-', '+').replace('_', '/')}+"
    yield compact.replace(".", "．")  # noqa: RUF001 - a full-width dot on purpose
    yield compact + "."
    yield "." + compact
    # The last character of a 64-byte signature has four spare bits.
    last = alphabet.index(signature[-1])
    yield f"{header}.{payload}.{signature[:-1]}{alphabet[last | 1]}"


def test_no_other_spelling_of_a_sound_token_passes(mint) -> None:
    compact = mint.sign(b"payload!")
    for respelt in respellings(compact):
        assert respelt != compact
        assert refusal(mint.jwk, respelt) is Reason.TOKEN_MALFORMED


@given(data=st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=200)
def test_any_changed_character_is_refused(mint, data) -> None:
    compact = mint.sign(b'{"iss":"https://idp.example"}')
    at = data.draw(st.integers(0, len(compact) - 1))
    character = data.draw(st.characters(codec="utf-8").filter(lambda c: c != compact[at]))
    with pytest.raises(AuthenticationError):
        verify_jws(mint.jwk, compact[:at] + character + compact[at + 1 :])


@given(st.text(max_size=60) | st.from_regex(r"[\w-]*\.[\w-]*\.[\w-]*", fullmatch=True))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_garbage_is_refused_with_a_reason(mint, garbage: str) -> None:
    with pytest.raises(TokenRefused):
        verify_jws(mint.jwk, garbage)


def test_json_serialization_and_encrypted_tokens_are_refused(mint) -> None:
    header, payload, signature = mint.sign(b"x").split(".")
    flattened = json.dumps({"payload": payload, "protected": header, "signature": signature})
    assert refusal(mint.jwk, flattened) is Reason.TOKEN_MALFORMED
    with pytest.raises(TokenRefused, match="encrypted"):
        verify_jws(mint.jwk, "a.b.c.d.e")


def test_oversized_tokens_are_refused_before_they_are_read(mint) -> None:
    assert refusal(mint.jwk, mint.sign(b"x" * TOKEN_CHARS_MAX)) is Reason.TOKEN_TOO_LARGE
    assert refusal(mint.jwk, "." * 10_000_000) is Reason.TOKEN_TOO_LARGE
    large_header = mint.sign(b"x", {"padding": "x" * 2048})
    assert refusal(mint.jwk, large_header) is Reason.TOKEN_TOO_LARGE


@pytest.mark.parametrize("compact", [None, b"a.b.c", 7, ["a", "b", "c"]])
def test_what_is_not_text_is_refused(mint, compact) -> None:
    assert refusal(mint.jwk, compact) is Reason.TOKEN_MALFORMED


def test_a_token_that_names_another_key_is_refused(mint) -> None:
    assert refusal(mint.jwk, mint.sign(b"x", {"kid": "other"})) is Reason.KEY_UNKNOWN
    assert verify_jws(mint.jwk, mint.sign(b"x", {"kid": None})) == b"x"


def test_another_key_of_the_same_name_does_not_verify(mint, new_mint) -> None:
    assert refusal(new_mint().jwk, mint.sign(b"x")) is Reason.SIGNATURE_INVALID


def test_der_signatures_and_wrong_lengths_are_refused(mint) -> None:
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec

    signed, _, signature = mint.sign(b"x").rpartition(".")
    der = mint.key.sign(signed.encode(), ec.ECDSA(hashes.SHA256()))
    assert refusal(mint.jwk, f"{signed}.{encode_base64url(der)}") is Reason.SIGNATURE_INVALID
    for wrong in (signature[:-4], signature + "AAAA", encode_base64url(bytes(64))):
        with pytest.raises(TokenRefused):
            verify_jws(mint.jwk, f"{signed}.{wrong}")


def test_neither_errors_nor_values_show_the_token(mint) -> None:
    compact = mint.sign(b'{"secret":"claim"}')
    signature = compact.rpartition(".")[2]
    shown = repr(parse_compact(compact))
    assert signature not in shown
    assert "secret" not in shown
    for respelt in respellings(compact):
        with pytest.raises(TokenRefused) as caught:
            verify_jws(mint.jwk, respelt)
        assert signature[:20] not in str(caught.value)
