"""A member delivers what it holds, once, and acknowledges nothing else."""

from log_format.body import encode_body
from log_format.envelope import add_stamp
from log_format.frame import body_padding, decode_frame, encode_frame
from log_format.parts import Producer, Stamp
from sidecar.delivery.holdings import Hold, Holdings
from sidecar.delivery.tries import Try


def frame(base: int, count: int, partition: int = 0):
    body = encode_body([0] * count, [b"1"] * count)
    producer = Producer("orders", partition, 1, 0, 0, count, 0, 0, bytes(32))
    plain = decode_frame(encode_frame(producer, body))
    stamped = add_stamp(plain.envelope.raw, Stamp(0, base, 1, 0))
    return decode_frame(stamped + bytes(plain.body) + body_padding(plain.envelope.body_len))


def assign(generation=1, low=0, acked=(), attempts=None, partition=0):
    return {
        "partition": partition,
        "generation": generation,
        "low": low,
        "acked": [list(each) for each in acked],
        "attempts": attempts or {},
    }


def lease(number, first, count, acked=(), attempts=None):
    return {
        "partition": 0,
        "lease": number,
        "first_offset": first,
        "count": count,
        "acked": [list(each) for each in acked],
        "attempts": attempts or {},
    }


def test_a_frame_is_delivered_from_the_low_mark_on_without_what_is_acknowledged():
    holdings = Holdings()
    hold = holdings.assign(assign(low=17, acked=[(19, 22)], attempts={"17": 2, "40": 1}))
    delivery = holdings.take(frame(15, 10)).delivery
    assert delivery.hold == hold == Hold(0, generation=1)
    assert list(delivery.offsets) == [17, 18, 23, 24]
    assert delivery.attempts == {17: 2}


def test_a_whole_frame_is_one_range():
    holdings = Holdings()
    holdings.assign(assign())
    assert holdings.take(frame(0, 1000)).delivery.offsets == range(1000)


def test_a_frame_that_nobody_assigned_is_not_delivered():
    holdings = Holdings()
    assert holdings.take(frame(0, 3)).delivery is None
    holdings.assign(assign(partition=1))
    assert holdings.take(frame(0, 3)).delivery is None


def test_only_what_was_delivered_can_be_acknowledged_and_only_once():
    holdings = Holdings()
    hold = holdings.assign(assign())
    holdings.take(frame(0, 5))
    assert holdings.ack(hold, [(3, 9)]) == (hold, [(3, 4)])
    assert holdings.ack(hold, [(0, 9)]) == (hold, [(0, 2)])
    assert holdings.ack(hold, [(0, 9)]) == (hold, [])
    assert not holdings.in_hand(hold)


def test_what_was_given_back_comes_again_with_one_attempt_more_and_the_rest_does_not():
    holdings = Holdings()
    hold = holdings.assign(assign(attempts={"1": 4}))
    holdings.take(frame(0, 4))
    holdings.ack(hold, [(0, 0)])
    assert holdings.nack(hold, [1, 1, 7]) == [1]
    again = holdings.take(frame(0, 4)).delivery
    assert list(again.offsets) == [1]
    assert again.attempts == {1: 5}


def test_the_history_of_earlier_tries_comes_with_the_message_once():
    row = {"number": 1, "at_us": 7, "status": 500, "error": "the app answered 500"}
    first = (Try(1, 7, 500, "the app answered 500"),)
    history = {"1": [row], "5": [row]}
    holdings = Holdings()
    hold = holdings.assign({**assign(attempts={"1": 1, "5": 1}), "history": history})
    assert holdings.take(frame(0, 3)).delivery.history == {1: first}
    assert holdings.take(frame(3, 3)).delivery.history == {5: first}
    holdings.nack(hold, [1])
    again = [row, {**row, "number": 2, "status": None}]
    redeliver = {**hold.names(), "offsets": [1], "attempts": {"1": 2}, "history": {"1": again}}
    holdings.redeliver(redeliver)
    second = Try(2, 7, None, "the app answered 500")
    assert holdings.take(frame(0, 3)).delivery.history == {1: (*first, second)}
    holdings.lease({**lease(9, 6, 2, attempts={"6": 1}), "history": {"6": [row]}})
    assert holdings.take(frame(6, 2)).delivery.history == {6: first}


def test_failed_tries_are_kept_for_what_is_in_hand_alone():
    holdings = Holdings()
    hold = holdings.assign(assign())
    holdings.take(frame(0, 2))
    assert holdings.failed(hold, {1: 3, 9: 1}) == {1: 3}
    assert holdings.failed(Hold(0, generation=9), {1: 3}) == {}


def test_after_a_revoke_nothing_is_delivered_but_what_is_in_hand_can_be_acknowledged():
    holdings = Holdings()
    hold = holdings.assign(assign())
    waiting = holdings.take(frame(0, 2)).delivery
    assert holdings.revoke({"partition": 0, "generation": 1}) == hold
    assert not holdings.may_deliver(hold)
    assert holdings.still(waiting) is None
    assert holdings.take(frame(2, 2)).delivery is None
    assert holdings.holds == []
    assert not holdings.is_finished(hold)
    assert holdings.ack(hold, [(0, 1)]) == (hold, [(0, 1)])
    assert holdings.is_finished(hold)
    assert holdings.release(hold)
    assert not holdings.release(hold)


def test_a_revoke_of_another_generation_changes_nothing():
    holdings = Holdings()
    hold = holdings.assign(assign(generation=7))
    assert holdings.revoke({"partition": 0, "generation": 6}) is None
    assert holdings.may_deliver(hold)


def test_a_fenced_hold_is_gone_with_all_that_was_in_hand():
    holdings = Holdings()
    hold = holdings.assign(assign())
    holdings.take(frame(0, 2))
    assert holdings.fenced({"partition": 0, "generation": 1}) == hold
    assert holdings.fenced({"partition": 0, "generation": 1}) is None
    assert holdings.ack(hold, [(0, 1)]) == (hold, [])
    assert holdings.holder(0, 1) is None


def test_a_new_generation_replaces_the_old_one():
    holdings = Holdings()
    old = holdings.assign(assign(generation=1))
    holdings.take(frame(0, 4))
    new = holdings.assign(assign(generation=2))
    assert holdings.ack(old, [(0, 3)]) == (old, [])
    assert list(holdings.take(frame(0, 4)).delivery.offsets) == [0, 1, 2, 3]
    assert holdings.holder(0, 3) == new


def test_each_lease_is_for_the_one_frame_behind_it():
    holdings = Holdings()
    first = holdings.lease(lease(91, 17, 3, acked=[(18, 18)], attempts={"17": 1}))
    delivery = holdings.take(frame(17, 3)).delivery
    assert (delivery.hold, list(delivery.offsets), delivery.attempts) == (first, [17, 19], {17: 1})
    assert holdings.take(frame(20, 3)).delivery is None
    second = holdings.lease(lease(92, 20, 3))
    assert list(holdings.take(frame(20, 3)).delivery.offsets) == [20, 21, 22]
    assert holdings.holder(0, 19) == first
    assert holdings.holder(0, 21) == second
    assert holdings.ack(first, [(17, 19)]) == (first, [(17, 17), (19, 19)])
    assert holdings.holds == [second]


def test_a_lease_with_nothing_left_to_deliver_is_forgotten():
    holdings = Holdings()
    holdings.lease(lease(1, 0, 2, acked=[(0, 1)]))
    assert holdings.take(frame(0, 2)).delivery is None
    assert holdings.holds == []


def test_acknowledgements_without_an_answer_are_said_again_once_they_are_given_again():
    holdings = Holdings()
    hold = holdings.assign(assign())
    holdings.take(frame(0, 10))
    holdings.ack(hold, [(0, 3)])
    holdings.confirmed({"partition": 0, "low": 2, "ranges": [[0, 1]]})
    assert not holdings.all_confirmed
    assert holdings.lost() == [hold]
    new = holdings.assign(assign(generation=2, low=2))
    taken = holdings.take(frame(0, 10))
    assert (taken.hold, list(taken.done)) == (new, [(2, 3)])
    assert list(taken.delivery.offsets) == [4, 5, 6, 7, 8, 9]
    holdings.confirmed({"partition": 0, "low": 4, "ranges": [[2, 3]]})
    assert holdings.all_confirmed


def test_what_is_done_after_the_loss_is_acknowledged_under_the_next_generation():
    holdings = Holdings()
    old = holdings.assign(assign())
    holdings.take(frame(0, 8))
    holdings.lost()
    assert holdings.ack(old, [(0, 0)]) == (old, [])
    new = holdings.assign(assign(generation=2))
    taken = holdings.take(frame(0, 4))
    assert list(taken.done) == [(0, 0)]
    waiting = taken.delivery
    assert list(waiting.offsets) == [1, 2, 3]
    assert holdings.ack(old, [(0, 1)]) == (new, [(1, 1)])
    assert list(holdings.still(waiting).offsets) == [2, 3]
    assert holdings.ack(old, [(5, 6)]) == (new, [])
    later = holdings.take(frame(4, 4))
    assert list(later.done) == [(5, 6)]
    assert list(later.delivery.offsets) == [4, 7]


def test_after_a_seek_back_nothing_old_is_acknowledged():
    holdings = Holdings()
    old = holdings.assign(assign(low=10))
    holdings.take(frame(10, 4))
    holdings.ack(old, [(10, 11)])
    holdings.lost()
    new = holdings.assign(assign(generation=2, low=3))
    assert list(holdings.take(frame(3, 11)).delivery.offsets) == list(range(3, 14))
    assert holdings.ack(old, [(12, 13)]) == (old, [])
    assert holdings.holder(0, 11) == new


def test_a_redelivery_brings_its_offsets_alone_whoever_had_given_them_back():
    holdings = Holdings()
    hold = holdings.assign(assign())
    holdings.take(frame(0, 5))
    holdings.redeliver({"partition": 0, "generation": 1, "offsets": [3], "attempts": {"3": 2}})
    again = holdings.take(frame(0, 5)).delivery
    assert (again.hold, list(again.offsets), again.attempts) == (hold, [3], {3: 2})
    holdings.redeliver({"partition": 0, "generation": 9, "offsets": [3]})
    assert holdings.take(frame(0, 5)).delivery is None


def test_a_lost_lease_is_waited_for_by_nobody():
    holdings = Holdings()
    hold = holdings.lease(lease(91, 0, 2))
    holdings.take(frame(0, 2))
    holdings.ack(hold, [(0, 0)])
    assert not holdings.all_confirmed
    holdings.lost()
    assert holdings.all_confirmed


def test_a_revoked_lease_is_gone_at_once():
    holdings = Holdings()
    hold = holdings.lease(lease(91, 0, 2))
    holdings.take(frame(0, 2))
    assert holdings.revoke({"partition": 0, "lease": 91}) == hold
    assert holdings.ack(hold, [(0, 1)]) == (hold, [])


def test_what_waited_in_vain_is_not_in_hand():
    holdings = Holdings()
    hold = holdings.assign(assign())
    waiting = holdings.take(frame(0, 4)).delivery
    holdings.revoke({"partition": 0, "generation": 1})
    holdings.undelivered(hold, waiting.offsets)
    assert holdings.is_finished(hold)


def test_each_hold_is_named_as_the_wire_does():
    assert Hold(0, generation=7).names() == {"partition": 0, "generation": 7}
    assert Hold(2, lease=91).names() == {"partition": 2, "lease": 91}
