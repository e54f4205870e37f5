"""From what the log says of a batch to what its apps are told: never more than is known."""

import pytest

from sidecar.errors import (
    Denied,
    InDoubt,
    LogBusy,
    LogDiskFull,
    OverQuota,
    Rejected,
    RingFull,
    TooLarge,
    UnknownTopic,
)
from sidecar.publish.batch import Ack, Entry, make_batch
from sidecar.publish.message import Message
from sidecar.publish.producer import ProducerEpoch
from sidecar.publish.refusals import in_doubt, refusal_error, ring_full
from sidecar.publish.results import refusal

CODES = {
    "denied": Denied,
    "unknown_topic": UnknownTopic,
    "unknown_partition": UnknownTopic,
    "too_large": TooLarge,
    "bad_frame": Rejected,
    "over_quota": OverQuota,
    "overloaded": LogBusy,
    "disk_full": LogDiskFull,
    "duplicate_too_old": InDoubt,
    "something_new": Rejected,
}


@pytest.fixture
def batch():
    entries = [Entry(Message("t", b"1", 0), Ack.CORE, None)]
    return make_batch("t", 0, ProducerEpoch(1, 0), 0, entries, 0)


@pytest.mark.parametrize("code", CODES)
def test_each_code_is_told_as_its_error_with_the_logs_own_words(batch, code):
    error = refusal_error(batch, refusal(code, {"detail": "the log's words"}))
    assert type(error) is CODES[code]
    assert "the log's words" in str(error)


@pytest.mark.parametrize("code", CODES)
def test_after_a_lost_answer_no_refusal_claims_that_the_message_is_not_in_the_log(batch, code):
    batch.doubtful = True
    assert type(refusal_error(batch, refusal(code, {}))) is InDoubt


def test_a_denial_names_its_decision_and_only_what_is_known_of_it(batch):
    error = refusal_error(batch, refusal("denied", {"decision_id": "d", "reason": "r"}))
    assert error.members == {"decision_id": "d", "reason": "r"}
    assert refusal_error(batch, refusal("denied", {})).members == {}


@pytest.mark.parametrize(("wait_ms", "header"), [(None, "1"), (100, "1"), (2500, "3")])
def test_what_may_be_tried_again_says_when(batch, wait_ms, header):
    for code in ("over_quota", "overloaded"):
        error = refusal_error(batch, refusal(code, {"retry_after_ms": wait_ms}))
        assert error.headers == {"Retry-After": header}


def test_doubt_and_a_full_ring_say_what_to_do_next():
    assert "same id" in str(in_doubt())
    assert "(disk full)" in str(in_doubt("disk full"))
    assert isinstance(ring_full(), RingFull)
    assert "limits.ring_entries_max" in str(ring_full())
    assert ring_full().headers == {"Retry-After": "1"}
