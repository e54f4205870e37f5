"""Filters let through what their expression says, and nothing that cannot be judged."""

import subprocess
import sys

import orjson
import pytest

from log_format.body import encode_body
from log_format.envelope import add_provenance, add_stamp
from log_format.frame import body_padding, decode_frame, encode_frame
from log_format.parts import Producer, Provenance, Stamp
from sidecar.delivery.filter import COSTLY_BYTES_MAX, EXPRESSION_BYTES_MAX, Filter
from sidecar.errors import BadFilter

WHO = Provenance("billing", "i", "c", bytes(32), "t", bytes(16), bytes(32), "r", "g", 1)
TIME_US = 1_767_225_600_000_000
"""2026-01-01T00:00:00Z"""


def frame(*values, base=0, **columns):
    body = encode_body([TIME_US] * len(values), values, **columns)
    producer = Producer("orders", 3, 7, 0, 0, len(values), TIME_US, TIME_US, bytes(32))
    plain = decode_frame(encode_frame(producer, body))
    sealed = add_stamp(add_provenance(plain.envelope.raw, WHO), Stamp(0, base, 1, 0))
    return decode_frame(sealed + bytes(plain.body) + body_padding(plain.envelope.body_len))


def json_frame(*messages, **columns):
    return frame(*map(orjson.dumps, messages), **columns)


def select(text, made, base=0):
    tried = Filter(text)
    count = made.envelope.producer.count
    return tried.select(made, range(base, base + count)), tried


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("message.amount > 100", [1]),
        ("message.amount >= 50 && message.status in ['open', 'paid']", [0, 1]),
        ("message.status.startsWith('p')", [1]),
        ("message.status.matches('^p.*d$')", [1]),
        ("has(message.note)", [0]),
        ("!has(message.note)", [1]),
        ("message.tags.exists(t, t == 'eu')", [0]),
        ("message.vip", [1]),
        ("size(message.tags) == 1", [0]),
        ("true", [0, 1]),
        ("false", []),
    ],
)
def test_json_fields(text, expected):
    made = json_frame(
        {"amount": 50, "status": "open", "note": 1, "tags": ["eu"], "vip": False},
        {"amount": 150.5, "status": "paid", "tags": [], "vip": True},
    )
    found, tried = select(text, made)
    assert found == expected
    assert tried.errors == 0
    assert tried.dropped == 2 - len(expected)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("headers.region == 'eu'", [10]),
        ("'region' in headers", [10]),
        ("headers['x-y'] == 'z'", [10]),
        ("key == 'k'", [10]),
        ("key == null", [11]),
        ("id == 'own'", [10]),
        ("id.startsWith('0000000000000007-0-')", [11]),
        ("offset == 11", [11]),
        ("topic == 'orders' && partition == 3 && principal == 'billing'", [10, 11]),
        ("timestamp < timestamp('2026-01-01T00:00:01Z')", [10, 11]),
        ("timestamp.getFullYear() == 2026", [10, 11]),
        ("content_type == null", [10]),
        ("content_type == 'text/plain'", [11]),
        ("message == null", [11]),
    ],
)
def test_everything_else_that_a_message_has(text, expected):
    made = frame(
        b"1",
        b"plain",
        base=10,
        ids=[b"own", None],
        keys=[b"k", None],
        headers=[b'{"region":"eu","x-y":"z"}', b"{}"],
        content_types=[None, b"text/plain"],
    )
    found, _ = select(text, made, base=10)
    assert found == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("message.missing == 1", {}),
        ("message.deep.missing == 1", {"deep": {}}),
        ("message.a > 1", {"a": "text"}),
        ("message.a == 1", 17),
        ("message.a", {"a": "no truth"}),
        ("headers.missing == 'x'", {}),
        ("message.a > 1", {"a": 2**64 - 1, "b": [1] * 5, "c": 10**400}),
    ],
)
def test_what_cannot_be_judged_does_not_match_and_is_counted(text, message):
    try:
        made = json_frame(message)
    except (TypeError, orjson.JSONEncodeError):
        made = frame(b'{"a":1%s}' % (b"0" * 400))
    found, tried = select(text, made)
    assert found == []
    assert tried.errors == 1


def test_payloads_that_are_no_json_are_counted_where_they_are_asked_for():
    made = frame(b"\xff{", b"1")
    assert select("message == 1", made)[0] == [1]
    assert select("message == 1", made)[1].errors == 1
    assert select("offset >= 0", made)[0] == [0, 1]


@pytest.mark.parametrize(
    ("text", "line", "column", "what"),
    [
        ("message.amount >", 1, 17, "Syntax error"),
        ("message.amount > 100 &&& 1", 1, 24, "Syntax error"),
        ("true && massage.amount > 1", 1, 16, "undeclared reference to 'massage.amount'"),
        ("true &&\n  offset == 'x'", 2, 10, "no matching overload"),
        ("headers.region.startsWith(1)", 1, 26, "no matching overload"),
        ("offset + 1", 1, 1, "gives int and not true or false"),
        ("  ", 1, 1, "empty"),
        ("(" * 60 + "true" + ")" * 60, 1, 1, "recursion limit"),
        ("message.l.exists(x, x + x == '')", 1, 23, "beside a macro"),
        ("'a' != 'b' &&\nmessage.l.all(x, string(x) == '')", 2, 18, "beside a macro"),
        ("'é' * ", 1, 7, "Syntax error"),
    ],
)
def test_a_bad_expression_is_refused_with_its_place(text, line, column, what):
    with pytest.raises(BadFilter) as caught:
        Filter(text)
    assert what in str(caught.value)
    assert caught.value.members == {"field": "filter", "line": line, "column": column}


def test_an_expression_that_is_too_long_is_refused_unread():
    with pytest.raises(BadFilter, match=str(EXPRESSION_BYTES_MAX)):
        Filter("true || " * 1000 + "true")


def test_what_stands_in_strings_is_no_macro():
    assert select("'a.all(x, x)' + 'b' != r'\\d' + \"c\"", json_frame(1))[0] == [0]


def test_iterations_without_end_are_cut_and_counted():
    made = json_frame(list(range(300)))
    found, tried = select("message.all(a, message.all(b, message.all(c, a + 0 >= 0)))".replace(
        "a + 0", "a"
    ), made)  # fmt: skip
    assert found == []
    assert tried.errors == 1


def test_a_costly_expression_leaves_large_messages_alone():
    large = {"l": ["x" * COSTLY_BYTES_MAX]}
    found, tried = select("message.l.exists(x, x == 'a')", json_frame(large, {"l": ["a"]}))
    assert found == [1]
    assert tried.errors == 1
    assert select("message.l[0].startsWith('x')", json_frame(large))[0] == [0]


def test_only_the_offsets_that_are_asked_for_are_looked_at():
    made = json_frame(1, 2, 3, 4)
    assert Filter("message % 2 == 0").select(made, [0, 1, 2]) == [1]


def test_the_library_is_loaded_when_the_first_filter_is_made():
    code = (
        "import sys, sidecar.delivery.filter as f\n"
        "assert 'cel_expr_python' not in sys.modules\n"
        "f.Filter('true')\n"
        "assert 'cel_expr_python' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
