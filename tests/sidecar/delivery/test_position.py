"""A position travels as text and comes back as it was; other texts are refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.delivery.position import POSITION_BYTES_MAX, decode_position, encode_position
from sidecar.errors import BadQuery

positions = st.dictionaries(
    st.integers(0, 2**31 - 1), st.integers(0, 2**63 - 1), min_size=1, max_size=20
)


@given(positions)
def test_a_position_comes_back_as_it_was(offsets):
    text = encode_position(offsets)
    assert decode_position(text) == offsets
    assert text.isascii()
    assert text.isprintable()
    assert " " not in text


def test_partitions_stand_in_order():
    assert encode_position({1: 5, 0: 17}) == "0-17_1-5"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0",
        "0-",
        "-1",
        "0--1",
        "0-1_",
        "_0-1",
        "0-1__1-2",
        "0-1 ",
        "0-1\n",
        "0-1,1-2",
        "a-1",
        "0-٣",
        "0-1_0-2",
        f"{2**31}-0",
        f"0-{2**63}",
        "0-1" + "0" * 30,
        "_".join(f"{number}-0" for number in range(POSITION_BYTES_MAX // 4)),
    ],
)
def test_a_text_that_was_never_sent_is_refused_by_the_name_of_its_header(text):
    with pytest.raises(BadQuery, match=r"^Last-Event-ID: ") as caught:
        decode_position(text)
    assert caught.value.members == {"field": "Last-Event-ID"}


@given(st.text(max_size=30))
def test_any_text_is_either_a_position_or_refused(text):
    try:
        offsets = decode_position(text)
    except BadQuery:
        return
    assert offsets


def test_over_a_thousand_partitions_at_their_greatest_offsets_fit():
    offsets = dict.fromkeys(range(2000), 2**63 - 1)
    assert decode_position(encode_position(offsets)) == offsets
