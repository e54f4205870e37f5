"""The types of a publish of one message are those of its answers."""

import msgspec

from log_format.proof import Proof
from sidecar.api.api_types import parse_query
from sidecar.api.publish_types import OnePublishQuery, PublishedOne, RawPublishQuery, Receipt


def test_a_receipt_has_the_members_of_a_proof():
    assert list(Receipt.__struct_fields__) == list(Proof.__slots__)


def test_an_answer_may_have_a_receipt_or_the_reason_why_not():
    plain = {"topic": "t", "partition": 0, "offset": 1, "id": "i", "durability": "committed"}
    without = {**plain, "receipt": None, "reason": "r", "receipt_url": "/receipt/t/0/1"}
    for document in (plain, without):
        assert msgspec.to_builtins(msgspec.convert(document, PublishedOne)) == document


def test_parameters_are_read():
    assert parse_query({"receipt": "1", "ack": "core"}, OnePublishQuery).receipt == "1"
    assert parse_query({"key": "k"}, RawPublishQuery).receipt == "0"
