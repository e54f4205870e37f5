"""Parameters are taken in their form and range, and refused by name otherwise."""

import pytest
from multidict import MultiDict

from sidecar.api.api_types import (
    AckName,
    MessagesQuery,
    NoQuery,
    PublishQuery,
    SubscribeQuery,
    parse_query,
)
from sidecar.errors import BadQuery
from sidecar.publish.batch import Ack


def test_what_is_not_given_has_its_default():
    assert parse_query({}, PublishQuery) == PublishQuery("auto", None)
    assert parse_query({}, MessagesQuery) == MessagesQuery(0, 0, 1000)
    assert parse_query({}, SubscribeQuery) == SubscribeQuery("latest", None)
    assert parse_query({}, NoQuery) == NoQuery()


def test_numbers_are_read_from_their_text():
    query = {"partition": "2", "offset": str(2**63 - 1), "limit": "10000"}
    assert parse_query(query, MessagesQuery) == MessagesQuery(2, 2**63 - 1, 10_000)
    assert parse_query({"ack": "core", "timeout_ms": "5"}, PublishQuery).timeout_ms == 5


def test_from_is_a_parameter_although_the_language_has_the_word():
    assert parse_query({"from": "offset:5"}, SubscribeQuery).start == "offset:5"


@pytest.mark.parametrize(
    ("kind", "query", "names"),
    [
        (PublishQuery, {"ack": "all"}, "ack"),
        (PublishQuery, {"ack": ""}, "ack"),
        (PublishQuery, {"timeout_ms": "0"}, "timeout_ms"),
        (PublishQuery, {"timeout_ms": "1.5"}, "timeout_ms"),
        (PublishQuery, {"timeout": "1"}, "timeout"),
        (MessagesQuery, {"limit": "0"}, "limit"),
        (MessagesQuery, {"limit": "10001"}, "limit"),
        (MessagesQuery, {"offset": "-1"}, "offset"),
        (MessagesQuery, {"offset": str(2**63)}, "offset"),
        (MessagesQuery, {"offset": ""}, "offset"),
        (MessagesQuery, {"partition": str(2**31)}, "partition"),
        (NoQuery, {"x": "1"}, "x"),
    ],
)
def test_a_wrong_parameter_is_refused_by_its_name(kind, query, names):
    with pytest.raises(BadQuery, match=names):
        parse_query(query, kind)


def test_a_parameter_that_is_given_twice_is_refused():
    with pytest.raises(BadQuery, match="twice"):
        parse_query(MultiDict([("limit", "1"), ("limit", "2")]), MessagesQuery)


def test_the_names_of_ack_are_those_that_the_sidecar_knows():
    assert set(AckName.__args__) == {ack.value for ack in Ack}
