"""When a lane closes batches, what goes into one, and what one request may carry."""

import pytest

from sidecar.publish.batch import Ack, Entry, Lines
from sidecar.publish.flight import BATCHES_IN_FLIGHT_MAX, FLIGHTS_MAX
from sidecar.publish.lane import FLIGHT_BYTES, FOLLOW_BYTES, Lane, LaneLimits
from sidecar.publish.message import Message
from sidecar.publish.producer import ProducerEpoch
from sidecar.publish.results import AppendResult, Verdict, refusal
from sidecar.publish.settlement import LATE_S_MAX, RETRY_AFTER_DEFAULT_S, RETRY_AFTER_S_MAX

COMMITTED = AppendResult(Verdict.COMMITTED, 0, "committed")
DOUBT = AppendResult(Verdict.DOUBT)
UNSENT = AppendResult(Verdict.UNSENT)
GAP = refusal("sequence_gap", {})


class CountedEpochs:
    """Epochs in memory."""

    def __init__(self):
        self.current = ProducerEpoch(7, 0)

    def raise_epoch(self):
        self.current = ProducerEpoch(self.current.producer_id, self.current.epoch + 1)
        return self.current

    def replace_id(self):
        self.current = ProducerEpoch(self.current.producer_id + 1, 0)
        return self.current


@pytest.fixture
def make_lane():
    def make(**limits):
        defaults = {
            "ring_entries_max": 100,
            "ring_bytes_max": 1_000_000,
            "batch_bytes_max": 200,
            "linger_s": 0.0,
        }
        return Lane("t", 0, CountedEpochs(), LaneLimits(**{**defaults, **limits}))

    return make


def message(size=10, ack=Ack.CORE, told=None):
    reply = (lambda _: None) if told is None else told.append
    return Entry(Message("t", b"x" * size, 1), ack, reply)


def counts(flight):
    return [batch.producer.count for batch in flight.batches]


def places(flight):
    return [(batch.producer.epoch, batch.producer.first_sequence) for batch in flight.batches]


def answer(lane, flight, *results, now=0.0):
    """The same result for each batch, or one each."""
    given = list(results) * len(flight.batches) if len(results) == 1 else list(results)
    return lane.settle(flight, given, now)


def test_an_idle_lane_has_nothing_due_and_the_first_message_is_due_at_once(make_lane):
    lane = make_lane()
    assert lane.due_at() is None
    assert lane.empty
    assert lane.offer(message(), now=5.0)
    assert lane.due_at() == 5.0
    assert not lane.empty


def test_linger_delays_the_first_message_of_an_idle_lane_and_not_those_that_join_it(make_lane):
    lane = make_lane(linger_s=0.5)
    lane.offer(message(), now=1.0)
    lane.offer(message(), now=1.4)
    assert lane.due_at() == 1.5


def test_a_full_batch_does_not_wait_for_the_linger_time(make_lane):
    lane = make_lane(linger_s=0.5, batch_bytes_max=100)
    lane.offer(message(size=100), now=1.0)
    assert lane.due_at() == 0.0


def test_what_came_while_an_answer_was_awaited_is_due_with_the_answer(make_lane):
    lane = make_lane(linger_s=9.0)
    lane.offer(message(), now=1.0)
    flight = lane.load(1000)
    lane.offer(message(), now=2.0)
    assert lane.due_at() is None
    assert lane.load(1000) is None
    answer(lane, flight, COMMITTED, now=3.0)
    assert lane.due_at() == 3.0


def test_a_batch_is_closed_at_its_size_and_a_larger_message_goes_alone(make_lane):
    lane = make_lane(batch_bytes_max=100)
    for size in (10, 10, 10, 500, 10):
        lane.offer(message(size=size), now=0.0)
    # Each record counts for its bytes and 32 more: two of ten bytes fit, three do not.
    assert counts(lane.load(10_000)) == [2, 1, 1, 1]


def test_messages_and_lines_are_never_in_one_batch(make_lane):
    lane = make_lane(batch_bytes_max=10_000)
    lane.offer(message(), now=0.0)
    lane.offer(Entry(Lines("t", b"a\nb", 2, 1), Ack.CORE, None), now=0.0)
    lane.offer(Entry(Lines("t", b"c", 1, 1), Ack.CORE, None), now=0.0)
    lane.offer(message(), now=0.0)
    assert counts(lane.load(10_000)) == [1, 3, 1]


def test_those_who_wait_for_the_log_are_not_in_one_batch_with_those_who_do_not(make_lane):
    lane = make_lane(batch_bytes_max=10_000)
    for ack in (Ack.CORE, Ack.AUTO, Ack.SIDECAR, Ack.NONE, Ack.AUTO):
        lane.offer(message(ack=ack), now=0.0)
    assert counts(lane.load(10_000)) == [2, 2, 1]


def test_a_request_carries_at_most_five_batches_with_contiguous_sequences(make_lane):
    lane = make_lane(batch_bytes_max=80)
    for _ in range(8):
        lane.offer(message(size=60), now=0.0)
    flight = lane.load(100_000)
    assert lane.in_flight == BATCHES_IN_FLIGHT_MAX
    assert places(flight) == [(0, 0), (0, 1), (0, 2), (0, 3), (0, 4)]
    assert lane.load(100_000) is None
    answer(lane, flight, COMMITTED, now=1.0)
    assert places(lane.load(100_000)) == [(0, 5), (0, 6), (0, 7)]


def test_a_request_stays_within_its_bytes_but_always_carries_one_batch(make_lane):
    lane = make_lane(batch_bytes_max=80)
    for _ in range(3):
        lane.offer(message(size=60), now=0.0)
    flight = lane.load(1)
    assert counts(flight) == [1]
    answer(lane, flight, UNSENT)
    size = len(lane.queue[0].frame)
    assert counts(lane.load(2 * size)) == [1, 1]


def test_after_single_one_request_carries_one_batch_and_the_next_ones_more(make_lane):
    lane = make_lane(batch_bytes_max=80)
    for _ in range(3):
        lane.offer(message(size=60), now=0.0)
    lane.single = True
    flight = lane.load(10_000)
    assert counts(flight) == [1]
    answer(lane, flight, COMMITTED)
    assert counts(lane.load(10_000)) == [1, 1]


def test_a_lost_answer_repeats_the_same_bytes(make_lane):
    lane = make_lane()
    lane.offer(message(), now=0.0)
    flight = lane.load(1000)
    first = flight.batches[0].frame
    answer(lane, flight, DOUBT)
    lane.offer(message(), now=1.0)
    again = lane.load(10_000).batches
    assert again[0].frame == first
    assert [batch.doubtful for batch in again] == [True, False]


def test_a_full_ring_refuses_and_takes_again_once_a_batch_was_closed(make_lane):
    lane = make_lane(ring_entries_max=2)
    assert lane.offer(message(), now=0.0)
    assert lane.offer(message(), now=0.0)
    assert not lane.offer(message(), now=0.0)
    lane.load(1000)
    assert lane.offer(message(), now=0.0)


def test_dropping_for_room_takes_the_oldest_that_nobody_answers_for_and_stops_at_a_promise(
    make_lane,
):
    lane = make_lane(ring_entries_max=4)
    for ack in (Ack.NONE, Ack.NONE, Ack.AUTO, Ack.NONE):
        lane.offer(message(ack=ack), now=0.0)
    assert lane.drop_for(42) == 1
    assert lane.offer(message(ack=Ack.NONE), now=0.0)
    assert lane.drop_for(42) == 1
    assert lane.offer(message(ack=Ack.NONE), now=0.0)
    # Now a promise stands first.
    assert lane.drop_for(42) == 0
    assert len(lane.ring) == 4


def test_a_quota_is_told_to_those_who_wait_and_its_time_holds_back_the_others(make_lane):
    lane = make_lane()
    lane.offer(message(), now=0.0)
    over = refusal("over_quota", {"retry_after_ms": 250})
    (settled,) = answer(lane, lane.load(1000), over, now=1.0)
    assert settled.result is over
    assert lane.empty
    lane.offer(message(ack=Ack.NONE), now=2.0)
    assert answer(lane, lane.load(1000), over, now=2.0) == []
    assert lane.due_at() == 2.25
    assert answer(lane, lane.load(1000), refusal("over_quota", {}), now=3.0) == []
    assert lane.due_at() == 3.0 + RETRY_AFTER_DEFAULT_S
    never = refusal("over_quota", {"retry_after_ms": 1e300})
    assert answer(lane, lane.load(1000), never, now=4.0) == []
    assert lane.due_at() == 4.0 + RETRY_AFTER_S_MAX


def test_behind_a_denied_batch_the_others_go_on_in_a_new_epoch_from_sequence_zero(make_lane):
    lane = make_lane(batch_bytes_max=80)
    for _ in range(3):
        lane.offer(message(size=60), now=0.0)
    (settled,) = answer(lane, lane.load(10_000), refusal("denied", {}), GAP, GAP)
    assert settled.result.code == "denied"
    again = lane.load(10_000)
    assert places(again) == [(1, 0), (1, 1)]
    answer(lane, again, COMMITTED)
    lane.offer(message(), now=0.0)
    assert places(lane.load(10_000)) == [(1, 2)]


def test_a_fenced_batch_goes_on_under_a_new_producer_id(make_lane):
    lane = make_lane()
    lane.offer(message(), now=0.0)
    assert answer(lane, lane.load(1000), refusal("fenced", {"current_epoch": 9})) == []
    (again,) = lane.load(1000).batches
    assert again.producer.producer_id == 8
    assert again.producer.first_sequence == 0


def test_what_is_abandoned_was_never_sent_and_what_is_in_doubt_stays(make_lane):
    lane = make_lane(batch_bytes_max=80)
    entries = [message(size=60) for _ in range(3)]
    lane.offer(entries[0], now=0.0)
    answer(lane, lane.load(1000), DOUBT)
    lane.offer(entries[1], now=0.0)
    answer(lane, lane.load(10_000), UNSENT)
    lane.offer(entries[2], now=0.0)
    assert lane.abandon() == entries[1:]
    assert [batch.entries for batch in lane.queue] == [[entries[0]]]
    lane.put_back(entries[1:])
    # The abandoned sequences stay unused: what follows begins an epoch, behind what is in doubt.
    flight = lane.load(10_000)
    assert flight.batches == [lane.queue[0]]
    assert lane.load(10_000) is None
    answer(lane, flight, COMMITTED)
    assert places(lane.load(10_000)) == [(1, 0), (1, 1)]


def test_what_is_under_way_is_not_abandoned_and_what_waits_behind_it_is(make_lane):
    lane = make_lane(batch_bytes_max=80)
    entries = [message(size=60) for _ in range(4)]
    for entry in entries[:2]:
        lane.offer(entry, now=0.0)
    flight = lane.load(1)
    lane.close_all()
    for entry in entries[2:]:
        lane.offer(entry, now=0.0)
    assert lane.abandon() == entries[1:]
    assert [batch.entries for batch in lane.queue] == [[entries[0]]]
    lane.put_back(entries[1:])
    # Their numbers are not used any more, so nothing follows before the answer is there.
    assert lane.load(10_000) is None
    answer(lane, flight, COMMITTED)
    assert places(lane.load(10_000)) == [(1, 0), (1, 1), (1, 2)]


def test_a_message_flows_unless_something_before_it_stands_still_or_is_on_disk(make_lane):
    lane = make_lane()
    assert lane.flows
    lane.stalled = True
    assert lane.flows
    lane.offer(message(), now=0.0)
    assert not lane.flows
    answer(lane, lane.load(1000), COMMITTED)
    assert lane.flows
    lane.shelf.extend([(1, 0.0)])
    assert not lane.flows


@pytest.mark.parametrize("code", ["unavailable", "over_quota"])
def test_behind_a_refused_batch_that_may_be_in_the_log_doubt_keeps_its_place(make_lane, code):
    """The first try put both into the log, unheard; now the first is denied by a new policy."""
    lane = make_lane(batch_bytes_max=80)
    for _ in range(2):
        lane.offer(message(size=60), now=0.0)
    flight = lane.load(10_000)
    first, second = flight.batches
    frame = second.frame
    answer(lane, flight, DOUBT)
    (settled,) = answer(lane, lane.load(10_000), refusal("denied", {}), refusal(code, {}))
    assert settled.batch is first
    # Under another stamp, the log would not recognise it and hold it twice.
    assert second.frame == frame
    assert second.doubtful
    assert lane.load(10_000).batches == [second]


@pytest.mark.parametrize(("expected", "published_again"), [(5, False), (0, True)])
def test_a_gap_whose_next_number_is_behind_the_batch_is_a_repeat_and_not_sent_again(
    make_lane, expected, published_again
):
    lane = make_lane()
    for _ in range(2):
        lane.offer(message(), now=0.0)
        flight = lane.load(1000)
        first = lane.queue[0].producer
        if first.first_sequence == 0:
            answer(lane, flight, COMMITTED)
    settled = answer(lane, flight, refusal("sequence_gap", {"expected_sequence": expected}))
    assert bool(settled) is not published_again
    assert bool(lane.queue) is published_again
    if published_again:
        assert lane.queue[0].producer.epoch > first.epoch
    else:
        assert settled[0].result.verdict is Verdict.COMMITTED_UNPLACED


@pytest.mark.parametrize("code", ["unavailable", "storage_failed"])
def test_behind_an_answer_in_doubt_a_gap_is_not_believed_while_the_first_try_may_arrive(
    make_lane, code
):
    """The gatekeeper gave up on the core; what it forwarded may be appended any moment."""
    lane = make_lane(batch_bytes_max=80)
    for _ in range(2):
        lane.offer(message(size=60), now=0.0)
    answer(lane, lane.load(10_000), refusal(code, {}), now=100.0)
    flight = lane.load(10_000)
    frame = flight.batches[1].frame
    answer(lane, flight, refusal("denied", {}), GAP, now=101.0)
    assert lane.queue[0].frame == frame
    assert lane.due_at() == 100.0 + LATE_S_MAX
    answer(lane, lane.load(10_000), GAP, now=100.0 + LATE_S_MAX)
    assert places(lane.load(10_000)) == [(1, 0)]


def test_a_further_request_follows_once_enough_waits_and_each_carries_about_its_share(make_lane):
    lane = make_lane(batch_bytes_max=FLIGHT_BYTES, ring_bytes_max=1 << 26)
    lane.offer(message(size=10), now=0.0)
    first = lane.load(1 << 24)
    lane.offer(message(size=FOLLOW_BYTES // 2), now=0.0)
    assert lane.due_at() is None
    lane.offer(message(size=FOLLOW_BYTES // 2), now=0.0)
    assert lane.due_at() == 0.0
    second = lane.load(1 << 24)
    for _ in range(10):
        lane.offer(message(size=FLIGHT_BYTES // 4), now=0.0)
    third = lane.load(1 << 24)
    assert [counts(each) for each in (first, second, third)] == [[1], [2], [3]]
    assert lane.due_at() is None, "no more than three at a time"
    assert lane.load(1 << 24) is None
    # What is left stays open, so that more can join it.
    assert len(lane.ring) == 7
    assert places(third) == [(0, 3)]


def test_all_that_is_under_way_comes_to_five_batches(make_lane):
    lane = make_lane(batch_bytes_max=80)
    for _ in range(9):
        lane.offer(message(size=60), now=0.0)
    flights = [lane.load(200) for _ in range(FLIGHTS_MAX + 1)]
    taken = [counts(flight) for flight in flights if flight is not None]
    assert sum(map(len, taken)) <= BATCHES_IN_FLIGHT_MAX
    assert len(taken) == FLIGHTS_MAX


def two_under_way(lane):
    for _ in range(2):
        lane.offer(message(size=60), now=0.0)
    flights = [lane.load(1), lane.load(1)]
    lane.offer(message(size=60), now=0.0)
    return flights


def test_an_answer_that_overtook_another_is_told_behind_it(make_lane):
    lane = make_lane(batch_bytes_max=80)
    first, second = two_under_way(lane)
    assert answer(lane, second, COMMITTED) == []
    settled = answer(lane, first, COMMITTED)
    assert [each.batch for each in settled] == [*first.batches, *second.batches]


def test_a_request_that_overtook_another_is_sent_again_with_its_numbers(make_lane):
    lane = make_lane(batch_bytes_max=80)
    first, second = two_under_way(lane)
    frame = second.batches[0].frame
    assert answer(lane, second, GAP) == []
    assert lane.due_at() is None, "nothing follows an answer that needs the others"
    (settled,) = answer(lane, first, COMMITTED)
    assert settled.batch is first.batches[0]
    again = lane.load(10_000)
    assert again.batches[0].frame == frame
    assert not again.batches[0].doubtful
    assert places(again) == [(0, 1), (0, 2)]


def test_behind_a_lost_request_one_that_was_committed_is_settled_and_the_lost_one_asked_for(
    make_lane,
):
    lane = make_lane(batch_bytes_max=80)
    first, second = two_under_way(lane)
    assert answer(lane, second, COMMITTED) == []
    (settled,) = answer(lane, first, DOUBT)
    assert settled.batch is second.batches[0]
    assert lane.load(1).batches == first.batches


def test_behind_a_denied_request_the_one_that_was_under_way_begins_a_new_epoch(make_lane):
    lane = make_lane(batch_bytes_max=80)
    first, second = two_under_way(lane)
    assert answer(lane, first, refusal("denied", {})) == []
    (settled,) = answer(lane, second, DOUBT)
    assert settled.result.code == "denied"
    again = lane.load(10_000)
    # It cannot be in the log without what was denied, so it is in no doubt.
    assert places(again) == [(1, 0), (1, 1)]
    assert not any(batch.doubtful for batch in again.batches)


def test_a_lone_request_is_not_followed_while_frames_go_one_by_one(make_lane):
    lane = make_lane(batch_bytes_max=80)
    first, second = two_under_way(lane)
    lane.single = True
    assert answer(lane, first, UNSENT) == []
    assert answer(lane, second, GAP) == []
    alone = lane.load(10_000)
    assert counts(alone) == [1]
    assert alone.batches == first.batches
