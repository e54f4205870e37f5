"""What is JSON by its grammar is JSON here, and nothing else is."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.api.json_text import is_json

NESTED = 200


@pytest.mark.parametrize(
    "text",
    [
        b"1e400",
        b"-1e-400",
        b'{"n":1E+999}',
        b"1" * 5000,
        b'[0.1, 123456789012345678901234567890, {"a": null}]',
        b'"\\ud800"',
        b" \r\n\ttrue \n",
        b'"\xc3\xa9"',
        b"[" * NESTED + b"]" * NESTED,
    ],
)
def test_json_that_fits_no_double_or_text_is_json_all_the_same(text):
    assert is_json(text)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b" ",
        b"NaN",
        b"Infinity",
        b"-Infinity",
        b"[NaN]",
        b"nope",
        b"01e400",
        b"1e400,",
        b'1e400,"principal":"root"',
        b"1e400}",
        b"1e",
        b"1.e400",
        b"+1e400",
        b"[1e400",
        b'["\\ud800\n"]',
        b"['a', 1e400]",
        b"[1e400,]",
        b'{"a":1e400,}',
        b"1e400\xff",
        b'"\xff"',
        b"\xef\xbb\xbf1e400",
        b"1e400\x00",
        b"[" * 100_000,
        b"[" * 100_000 + b"]" * 100_000,
    ],
)
def test_what_only_looks_like_json_is_none(text):
    assert not is_json(text)


@given(st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
))  # fmt: skip
def test_whatever_can_be_written_as_json_is_json(document):
    assert is_json(json.dumps(document).encode())
    assert is_json(json.dumps(document, indent=1).encode())


@given(st.text(alphabet='{}[],:"\\\\0123456789eE+-.truefalsn \n', max_size=20))
def test_it_agrees_with_the_grammar_on_any_text(text):
    def refuse(name):
        raise ValueError(name)

    try:
        json.loads(text, parse_constant=refuse)
    except ValueError:
        assert not is_json(text.encode())
    else:
        assert is_json(text.encode())
