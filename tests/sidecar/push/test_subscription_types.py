"""Requests are checked by type, places understood, and what is kept is shown."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.errors import BadRequest
from sidecar.push.subscription_types import SeekRequest, decode_request, rendered, wire_place


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("earliest", "earliest"),
        ("latest", "latest"),
        ("offset:17", {"offsets": {"0": 17}}),
        ("17", {"offsets": {"0": 17}}),
        ("time:1970-01-01T00:00:01Z", {"time_us": 1_000_000}),
        ({"offsets": {"3": 4}}, {"offsets": {"3": 4}}),
        ({"time_us": 5}, {"time_us": 5}),
    ],
)
def test_places_are_understood(text, place):
    assert wire_place(text, "to") == place


def test_an_offset_is_of_the_partition_that_was_named():
    assert wire_place("offset:1", "to", 7) == {"offsets": {"7": 1}}


@pytest.mark.parametrize(
    "text",
    [
        "", "soon", "offset:", "offset:-1", "offset:x", "offset:" + "9" * 30, "time:x",
        "time:2026-01-01T00:00:00", {}, {"offsets": 1}, {"offsets": {"x": 1}},
        {"offsets": {"0": -1}}, {"offsets": {"0": True}}, {"time_us": "1"}, {"time_us": 1, "x": 1},
    ],
)  # fmt: skip
def test_what_is_no_place_is_refused_by_field(text):
    with pytest.raises(BadRequest) as caught:
        wire_place(text, "to")
    assert caught.value.members["field"] == "to"


@given(st.text(max_size=40))
def test_any_text_is_a_place_or_refused(text):
    with contextlib.suppress(BadRequest):
        wire_place(text, "to")


@pytest.mark.parametrize(
    ("body", "field"),
    [(b"{", "body"), (b"[]", "body"), (b'{"to":1}', "to"), (b"\xff", "body"), (b"", "body")],
)
def test_a_bad_body_names_the_field(body, field):
    with pytest.raises(BadRequest) as caught:
        decode_request(body, SeekRequest)
    assert caught.value.members["field"] == field


def test_what_is_in_the_settings_is_shown_beside_the_rest():
    definition = {
        "name": "a", "owner": "app", "topic": "t", "mode": "ordered", "push": True,
        "settings": {"push": {"url": "u"}, "fire_and_forget": True, "filter": "true"},
        "cursors": [{"lag": 2, "in_flight": 1}, {"lag": 3, "in_flight": 0}],
    }  # fmt: skip
    shown = rendered(definition, state=True)
    assert (shown["mode"], shown["push"]) == ("fire_and_forget", {"url": "u"})
    assert (shown["filter"], shown["lag"], shown["in_flight"]) == ("true", 5, 1)
    assert "settings" not in shown
