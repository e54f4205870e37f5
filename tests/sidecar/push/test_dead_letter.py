"""A dead letter is the message with its history, and can be made the message again."""

import json

import orjson
import pytest

from sidecar.delivery.record import Record, headers_of
from sidecar.delivery.tries import Try
from sidecar.push.dead_letter import (
    HISTORY_SHOWN_MAX,
    PREFIX,
    Undelivered,
    dead_letter,
    is_letter_of,
    original_of,
)

ORIGINAL = Record(
    "orders", 2, 17, 1_000_000, "id-1", b"k", b'{"x":"y"}', b"text/plain", b"hi", "shop"
)
TRIES = [Try(1, 1_000_000, 500, "the app answered 500"), Try(2, 2_000_000, None, "reset")]


def letter(record=ORIGINAL, tries=TRIES, attempts=2):
    return dead_letter("orders.dead", record, Undelivered("app", "mailer", attempts, tries, "max"))


def as_record(message, offset=0):
    return Record(
        message.topic, 0, offset, message.event_us, message.id.decode(), message.key,
        message.headers, message.content_type, message.value, "app",
    )  # fmt: skip


def test_it_is_the_message_with_its_history():
    made = letter()
    assert (made.topic, made.value, made.key) == ("orders.dead", b"hi", b"k")
    assert (made.content_type, made.event_us) == (b"text/plain", 1_000_000)
    headers = json.loads(made.headers)
    assert headers["x"] == "y"
    assert headers[PREFIX + "error"] == "reset"
    assert headers[PREFIX + "last-attempt"] == "1970-01-01T00:00:02.000000Z"
    assert [each["status"] for each in json.loads(headers[PREFIX + "history"])] == [500, None]


def test_the_way_back_gives_the_message_and_its_tries():
    found = as_record(letter())
    assert is_letter_of(found, "app", "mailer")
    assert not is_letter_of(found, "app", "other")
    assert not is_letter_of(found, "other", "mailer")
    assert original_of(found) == (ORIGINAL, TRIES)


def test_a_letter_that_dies_again_has_one_set_of_headers():
    original, tries = original_of(as_record(letter()))
    again = as_record(letter(original, [*tries, Try(1, 3, 500, "again")], attempts=1))
    assert headers_of(again).keys() == headers_of(as_record(letter())).keys()
    assert len(original_of(again)[1]) == 3


def test_writing_the_same_failure_again_has_the_same_id_and_another_failure_has_not():
    assert letter().id == letter().id
    assert letter(tries=[*TRIES, Try(1, 3_000_000, 500, "again")]).id != letter().id


def test_a_long_history_is_bounded():
    tries = [Try(n, n, 500, "x" * 1000) for n in range(1, 101)]
    headers = json.loads(letter(tries=tries).headers)
    shown = json.loads(headers[PREFIX + "history"])
    assert len(shown) == HISTORY_SHOWN_MAX
    assert (shown[0]["attempt"], shown[-1]["attempt"]) == (1, 100)
    assert len(letter(tries=tries).headers) < 32 * 1024


@pytest.mark.parametrize("history", ["", "no", "[1]", '[{"attempt":"x"}]', "{}"])
def test_a_forged_history_is_left_out(history):
    forged = ORIGINAL._replace(headers=orjson.dumps({PREFIX + "history": history}))
    assert original_of(forged)[1] == []
