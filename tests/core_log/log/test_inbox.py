"""What waits for the writer: bounded, in order, and shut with a reason."""

from threading import Thread

import pytest

from core_log.log.inbox import Inbox, Submission
from core_log.log.log_errors import LogClosed, LogFailed, Overloaded


def submission(size: int) -> Submission:
    return Submission([], size, lambda outcomes: None)


def test_submissions_are_taken_in_order_and_by_bytes() -> None:
    inbox = Inbox(1000)
    put = [submission(size) for size in (100, 200, 50, 400)]
    for each in put:
        inbox.put(each)
    assert inbox.take(320) == put[:2]
    assert inbox.take(10) == put[2:3], "one at least, however large"
    assert inbox.take(1000) == put[3:]
    assert inbox.take(1000) == []


def test_bytes_are_in_flight_until_they_are_answered() -> None:
    inbox = Inbox(100)
    inbox.put(submission(60))
    with pytest.raises(Overloaded, match="60 bytes wait for the disk and the limit is 100"):
        inbox.put(submission(41))
    inbox.put(submission(40))
    taken = inbox.take(1000)
    assert inbox.in_flight == 100
    with pytest.raises(Overloaded):
        inbox.put(submission(1))
    inbox.answered(taken)
    assert inbox.in_flight == 0
    inbox.put(submission(100))


def test_one_that_is_larger_than_the_limit_passes_alone() -> None:
    inbox = Inbox(100)
    inbox.put(submission(5000))
    with pytest.raises(Overloaded):
        inbox.put(submission(1))


def test_a_shut_inbox_says_why_and_keeps_its_first_reason() -> None:
    inbox = Inbox(100)
    inbox.put(submission(10))
    assert inbox.shut(lambda: LogClosed("closing"))
    assert not inbox.shut(lambda: LogFailed("broken"))
    with pytest.raises(LogClosed, match="closing"):
        inbox.put(submission(10))
    with pytest.raises(LogClosed):
        inbox.check()
    assert inbox.wait(None), "what was accepted is still to be taken"
    inbox.take(1000)
    assert not inbox.wait(None)


def test_the_writer_wakes_for_a_submission_a_poke_and_the_end() -> None:
    inbox = Inbox(100)
    for wake in (
        lambda: inbox.put(submission(1)),
        inbox.poke,
        lambda: inbox.shut(lambda: LogClosed("closing")),
    ):
        waiting = Thread(target=inbox.wait, args=(None,))
        waiting.start()
        wake()
        waiting.join(10)
        assert not waiting.is_alive()
        inbox.take(1000)


def test_a_poke_before_the_wait_is_not_missed_and_counts_once() -> None:
    inbox = Inbox(100)
    inbox.poke()
    inbox.take(100)
    assert inbox.wait(None)
    assert inbox.wait(0.0)
