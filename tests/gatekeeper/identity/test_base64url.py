"""Base64url: one text for each value, and no other text for any."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatekeeper.identity.base64url import NotBase64url, decode_base64url, encode_base64url


@given(st.binary(max_size=100))
def test_what_is_encoded_is_decoded_again(data: bytes) -> None:
    assert decode_base64url(encode_base64url(data)) == data


@given(st.text(max_size=12))
def test_any_accepted_text_is_the_encoders_own(text: str) -> None:
    try:
        decoded = decode_base64url(text)
    except NotBase64url:
        return
    assert encode_base64url(decoded) == text


@pytest.mark.parametrize(
    "text",
    [
        "Zm8=",
        "Zg==",
        "Zh",
        "Zm9",
        "A",
        "Zm9v\n",
        " Zm9v",
        "Zm 9v",
        "Z+9v",
        "Z/9v",
        "Zm9v=",
        "Zé",
        "?",
    ],
)
def test_padding_spare_bits_and_foreign_characters_are_refused(text: str) -> None:
    with pytest.raises(NotBase64url):
        decode_base64url(text)
