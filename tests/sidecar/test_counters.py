"""What is counted, is counted once."""

from datetime import UTC, datetime

from sidecar.counters import Counters
from sidecar.publish.results import refusal


def test_a_committed_batch_counts_its_messages_and_bytes():
    counters = Counters()
    counters.committed(3, 100)
    counters.committed(1, 50)
    assert (counters.committed_messages, counters.committed_batches) == (4, 2)
    assert counters.committed_bytes == 150


def test_the_last_denial_is_remembered_with_its_decision():
    counters = Counters()
    assert counters.last_denial is None
    counters.denied("a", 2, refusal("denied", {"decision_id": "d-1"}))
    before = datetime.now(UTC)
    counters.denied(
        "b", 1, refusal("denied", {"decision_id": "d-2", "reason": "r", "detail": "no"})
    )
    assert counters.denied_messages == 3
    assert counters.last_denial is not None
    at = datetime.fromisoformat(str(counters.last_denial.pop("at")))
    assert abs((at - before).total_seconds()) < 60
    assert counters.last_denial == {
        "topic": "b",
        "decision_id": "d-2",
        "reason": "r",
        "detail": "no",
    }
