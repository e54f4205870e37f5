"""A key set: the keys that are for us, and which of them a token means."""

import json
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gatekeeper.identity.authentication_errors import Reason, TokenRefused
from gatekeeper.identity.key_set import KEYS_MAX, BadKeySet, KeySet, parse_key_set


def parsed(*keys: Any, algorithms: tuple[str, ...] = ("ES256",)) -> KeySet:
    return parse_key_set(json.dumps({"keys": keys}).encode(), algorithms)


@pytest.fixture
def rsa_jwk(new_mint, rsa_key: rsa.RSAPrivateKey) -> dict[str, Any]:
    return new_mint(kid="r1", alg="RS256", key=rsa_key).jwk


def test_keys_for_other_uses_are_left_out_without_a_word(mint, rsa_jwk) -> None:
    keys = parsed(
        mint.jwk,
        rsa_jwk,
        {**mint.jwk, "use": "enc"},
        {"kty": "oct", "k": "AAAA"},
    )
    assert [key.kid for key in keys.keys] == ["k1"]
    assert keys.problems == ()


def test_an_unsound_key_is_reported_and_does_not_lock_out_the_sound_ones(mint) -> None:
    keys = parsed({**mint.jwk, "x": "AA"}, "text", {"kty": "future"}, mint.jwk)
    assert len(keys.keys) == 1
    assert len(keys.problems) == 3


def test_a_published_private_key_is_worthless(mint) -> None:
    with pytest.raises(BadKeySet, match="gives its secret away"):
        parsed({**mint.jwk, "d": "AAAA"})


@pytest.mark.parametrize(
    "document",
    [b"", b"[]", b"{}", b'{"keys":{}}', b'{"keys":[],"keys":[]}', b'{"keys":[]}', b'{"keys":null}'],
)
def test_a_document_without_usable_keys_is_refused(document: bytes) -> None:
    with pytest.raises(BadKeySet):
        parse_key_set(document, ["ES256"])


def test_the_number_of_keys_is_bounded(mint) -> None:
    with pytest.raises(BadKeySet, match=str(KEYS_MAX)):
        parsed(*[mint.jwk] * (KEYS_MAX + 1))


def test_a_key_is_found_by_its_name(mint, new_mint) -> None:
    other = new_mint(kid="k2")
    keys = parsed(mint.jwk, other.jwk)
    found = keys.find("k2", "ES256")
    assert found is not None
    assert found.kid == "k2"
    assert keys.find("k3", "ES256") is None


def test_a_token_without_key_name_works_only_where_one_key_fits(mint, new_mint, rsa_jwk) -> None:
    both = parsed(mint.jwk, rsa_jwk, algorithms=("ES256", "RS256"))
    found = both.find(None, "RS256")
    assert found is not None
    assert found.kid == "r1"
    assert both.find(None, "PS256") is None
    with pytest.raises(TokenRefused) as caught:
        parsed(mint.jwk, new_mint(kid="k2").jwk).find(None, "ES256")
    assert caught.value.reason is Reason.KEY_UNKNOWN


def test_a_known_name_with_a_foreign_algorithm_is_refused_without_a_fetch(mint) -> None:
    with pytest.raises(TokenRefused) as caught:
        parsed(mint.jwk).find("k1", "RS256")
    assert caught.value.reason is Reason.ALGORITHM_REFUSED


def test_two_keys_of_different_types_may_share_a_name(mint, rsa_jwk) -> None:
    keys = parsed(mint.jwk, {**rsa_jwk, "kid": "k1"}, algorithms=("ES256", "RS256"))
    found = keys.find("k1", "RS256")
    assert found is not None
    assert found.algorithms == {"RS256"}


def test_two_keys_of_one_name_and_type_are_ambiguous(mint, new_mint) -> None:
    with pytest.raises(TokenRefused):
        parsed(mint.jwk, new_mint(kid="k1").jwk).find("k1", "ES256")


def test_a_withdrawn_key_is_noticed_even_when_its_name_is_used_again(mint, new_mint) -> None:
    key = parsed(mint.jwk).find("k1", "ES256")
    assert key is not None
    assert parsed({**mint.jwk, "kid": "renamed"}).holds(key)
    assert not parsed(new_mint(kid="k1").jwk).holds(key)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2)
    ),
    max_leaves=4,
)
MEMBERS = st.sampled_from(["kty", "kid", "use", "key_ops", "alg", "crv", "x", "y", "d", "n", "e"])


@given(changes=st.dictionaries(MEMBERS, JSON, min_size=1, max_size=3))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_whatever_an_issuer_publishes_is_taken_or_refused(mint, changes: dict[str, Any]) -> None:
    try:
        keys = parsed({**mint.jwk, **changes})
    except BadKeySet:
        return
    assert [key.algorithms for key in keys.keys] == [{"ES256"}]
    assert "x" not in changes
    assert "y" not in changes
