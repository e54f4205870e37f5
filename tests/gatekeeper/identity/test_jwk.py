"""One key: what is fit to verify with, what is not, and which algorithms follow from it."""

from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from gatekeeper.identity.authentication_errors import Reason, TokenRefused
from gatekeeper.identity.base64url import encode_base64url
from gatekeeper.identity.jwk import holds_private_members, load_jwk


@pytest.fixture
def ec_jwk(mint) -> dict[str, Any]:
    return dict(mint.jwk)


@pytest.fixture(scope="session")
def rsa_jwk(rsa_key: rsa.RSAPrivateKey) -> dict[str, Any]:
    numbers = rsa_key.public_key().public_numbers()
    return {"kty": "RSA", "n": uint(numbers.n), "e": uint(numbers.e)}


def uint(value: int) -> str:
    return encode_base64url(value.to_bytes((value.bit_length() + 7) // 8))


def assert_refused(jwk: dict[str, Any], names: str) -> None:
    with pytest.raises(TokenRefused, match=names) as caught:
        load_jwk(jwk)
    assert caught.value.reason is Reason.KEY_REFUSED


def test_the_algorithm_follows_from_type_and_curve(ec_jwk, rsa_jwk) -> None:
    assert load_jwk(ec_jwk).algorithms == {"ES256"}
    assert load_jwk({**ec_jwk, "alg": None}).algorithms == {"ES256"}
    assert load_jwk(rsa_jwk).algorithms == {"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"}
    assert load_jwk({**rsa_jwk, "alg": "PS256"}).algorithms == {"PS256"}


@pytest.mark.parametrize(("curve", "alg"), [(ec.SECP384R1(), "ES384"), (ec.SECP521R1(), "ES512")])
def test_the_larger_curves_verify_with_their_own_hash(new_mint, curve, alg) -> None:
    mint = new_mint(alg=alg, key=ec.generate_private_key(curve))
    assert load_jwk(mint.jwk).algorithms == {alg}


def test_ed25519_has_two_names(new_mint) -> None:
    jwk = new_mint(alg="EdDSA", key=ed25519.Ed25519PrivateKey.generate()).jwk
    assert load_jwk({**jwk, "alg": None}).algorithms == {"EdDSA", "Ed25519"}
    assert load_jwk({**jwk, "alg": "Ed25519"}).algorithms == {"Ed25519"}


def test_an_hmac_key_is_for_hashes_no_longer_than_itself() -> None:
    def jwk(size: int) -> dict[str, Any]:
        return {"kty": "oct", "k": encode_base64url(bytes(size))}

    assert load_jwk(jwk(32)).algorithms == {"HS256"}
    assert load_jwk(jwk(64)).algorithms == {"HS256", "HS384", "HS512"}
    assert_refused(jwk(31), "at least 32 bytes")
    assert_refused({**jwk(32), "alg": "HS512"}, "`alg`")


@pytest.mark.parametrize(
    ("change", "names"),
    [
        ({"use": "enc"}, "`use`"),
        ({"use": None}, "`use`"),
        ({"use": ["sig"]}, "`use`"),
        ({"key_ops": ["sign"]}, "verify"),
        ({"key_ops": "verify"}, "`key_ops`"),
        ({"key_ops": ["verify", 1]}, "`key_ops`"),
        ({"key_ops": ["verify", "verify"]}, "twice"),
        ({"key_ops": []}, "verify"),
        ({"alg": "RS256"}, "`alg`"),
        ({"alg": "ES384"}, "`alg`"),
        ({"alg": "HS256"}, "`alg`"),
        ({"alg": "none"}, "`alg`"),
        ({"alg": 1}, "`alg`"),
        ({"alg": ["ES256"]}, "`alg`"),
        ({"kid": 7}, "`kid`"),
        ({"kid": "k" * 513}, "`kid`"),
        ({"kty": "RSA"}, "`n`"),
        ({"kty": "ec"}, "`kty`"),
        ({"kty": None}, "`kty`"),
        ({"kty": ["EC"]}, "`kty`"),
        ({"crv": "P-384"}, "48 bytes"),
        ({"crv": "secp256k1"}, "`crv`"),
        ({"crv": None}, "`crv`"),
        ({"x": None}, "`x`"),
        ({"x": 1}, "`x`"),
        ({"x": "AA"}, "32 bytes"),
        ({"y": encode_base64url(bytes(32))}, "make no key"),
        ({"x": encode_base64url(b"\xff" * 32)}, "make no key"),
    ],
)
def test_an_unfit_key_is_refused_by_name(ec_jwk, change, names) -> None:
    assert_refused({**ec_jwk, **change}, names)


def test_a_coordinate_that_is_not_canonical_base64url_is_refused(ec_jwk) -> None:
    assert_refused({**ec_jwk, "x": ec_jwk["x"] + "="}, "base64url")
    assert_refused({**ec_jwk, "x": ec_jwk["x"] + "\n"}, "base64url")


def test_weak_and_monstrous_rsa_keys_are_refused(rsa_jwk) -> None:
    weak = rsa.generate_private_key(public_exponent=65537, key_size=1024).public_key()  # noqa: S505
    assert_refused({**rsa_jwk, "n": uint(weak.public_numbers().n)}, "2048 to 8192 bits")
    assert_refused({**rsa_jwk, "n": uint((1 << 16384) + 1)}, "2048 to 8192 bits")
    assert_refused({**rsa_jwk, "n": uint(1 << 2047)}, "odd")
    assert_refused({**rsa_jwk, "e": uint(3)}, "65537")
    assert_refused({**rsa_jwk, "e": uint(65538)}, "odd")
    assert_refused({**rsa_jwk, "e": uint((1 << 40) + 1)}, "32 bits")


def test_a_leading_zero_octet_in_a_modulus_changes_nothing(rsa_jwk, rsa_key) -> None:
    modulus = rsa_key.public_key().public_numbers().n
    padded = encode_base64url(b"\0" + modulus.to_bytes(256))
    assert load_jwk({**rsa_jwk, "n": padded}) == load_jwk(rsa_jwk)


def test_other_okp_curves_are_refused(ec_jwk) -> None:
    assert_refused({"kty": "OKP", "crv": "X25519", "x": ec_jwk["x"]}, "Ed25519")
    assert_refused({"kty": "OKP", "crv": "Ed25519", "x": "AAAA"}, "make no key")


def test_secrets_in_a_key_are_noticed(ec_jwk) -> None:
    assert not holds_private_members(ec_jwk)
    assert holds_private_members({**ec_jwk, "d": "AAAA"})
    assert holds_private_members({"kty": "oct", "k": "AAAA"})


def test_keys_are_told_apart_by_their_numbers_not_by_their_names(ec_jwk, new_mint) -> None:
    renamed = load_jwk({**ec_jwk, "kid": "another"})
    assert renamed.thumbprint == load_jwk(ec_jwk).thumbprint
    assert load_jwk(new_mint().jwk).thumbprint != renamed.thumbprint


def test_a_key_shows_no_numbers(ec_jwk) -> None:
    secret = encode_base64url(b"s" * 32)
    assert secret not in repr(load_jwk({"kty": "oct", "k": secret}))
    assert repr(b"s" * 32) not in repr(load_jwk({"kty": "oct", "k": secret}))


def test_an_algorithm_of_another_family_verifies_nothing(ec_jwk) -> None:
    assert not load_jwk(ec_jwk).verifies("HS256", b"signed", b"signature")
