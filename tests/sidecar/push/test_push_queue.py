"""The queue: order within a key, no key holds another, never too many, nothing lost or doubled."""

from hypothesis import given, settings
from hypothesis import strategies as st

from sidecar.delivery.tries import HISTORY_MAX
from sidecar.push.parcel import Effect, Parcel, State
from sidecar.push.push_queue import Patience, PushQueue, Verdict
from sidecar.uplink.backoff import Backoff

OK = Verdict(delivered=True, reached=True, status=200)
BAD = Verdict(delivered=False, reached=True, status=500, error="no")
GONE = Verdict(delivered=False, reached=False, error="refused")


def parcel(offset, key=None, hold="h", partition=0, tries=0):
    return Parcel(hold, partition, offset, key=key, size=10, tries=tries, record=offset)


def queue(concurrency=4, ordered=True, **patience):
    patience = {"max_attempts": 3, "backoff": Backoff(1.0, 8.0), **patience}
    return PushQueue(concurrency=concurrency, ordered=ordered, patience=Patience(**patience))


def offsets(given):
    return [each.offset for each, _ in given]


def test_the_next_of_a_key_waits_and_other_keys_do_not():
    q = queue()
    first, second, other = parcel(0, b"a"), parcel(1, b"a"), parcel(2, b"b")
    for each in (first, second, other):
        q.add(each)
    assert offsets(q.due(0)) == [0, 2]
    assert q.tried(first, OK, 0, 0, 0.5) is Effect.ACK
    assert offsets(q.due(0)) == [1]


def test_without_a_key_or_without_order_nobody_waits_for_another():
    for ordered, key in ((True, None), (False, b"a")):
        q = queue(ordered=ordered)
        for offset in range(4):
            q.add(parcel(offset, key))
        assert offsets(q.due(0)) == [0, 1, 2, 3]


def test_the_first_tries_and_the_newest_are_remembered():
    q = queue(max_attempts=None)
    each = parcel(0)
    q.add(each)
    for number in range(1, 2 * HISTORY_MAX):
        q.due(number * 100)
        q.tried(each, Verdict(delivered=False, reached=True, error="x" * 999), number * 100, 0, 0.5)
    for tries in (each.history, each.untold):
        assert len(tries) == HISTORY_MAX
        assert (tries[0].number, tries[-1].number) == (1, 2 * HISTORY_MAX - 1)
        assert len(tries[0].error) == 200


def test_a_failed_parcel_rests_and_goes_before_fresh_ones():
    q = queue(concurrency=1)
    failing, fresh = parcel(0), parcel(1)
    q.add(failing)
    q.due(0)
    assert q.tried(failing, BAD, 10.0, 7, 0.5) is Effect.COUNT
    assert failing.tries == 1
    assert q.next_s(10.0) == 10.5
    q.add(fresh)
    assert offsets(q.due(10.4)) == [1]
    q.tried(fresh, OK, 10.4, 0, 0.5)
    q.add(parcel(2))
    assert offsets(q.due(10.5)) == [0]


def test_a_parcel_that_others_have_tried_too_often_still_gets_one_try():
    q = queue()
    tired = parcel(0, tries=17)
    q.add(tired)
    assert offsets(q.due(0)) == [0]
    assert q.tried(tired, BAD, 0, 0, 0.5) is Effect.BURY
    assert q.busy == 1
    assert q.buried(tired, None, 0, 0.5) is Effect.ACK
    assert (q.busy, q.held) == (0, 0)


def test_a_dead_letter_that_is_not_written_is_tried_again():
    q = queue(max_attempts=1)
    dead = parcel(0, b"a")
    q.add(dead)
    q.add(parcel(1, b"a"))
    q.due(0)
    q.tried(dead, BAD, 0, 0, 0.5)
    assert q.buried(dead, "disk full", 0, 0.0) is Effect.BURY_LATER
    assert q.due(0.4) == []
    assert q.due(0.5) == [(dead, Effect.BURY)]
    assert q.buried(dead, None, 1, 0.5) is Effect.ACK
    assert offsets(q.due(1)) == [1]


def test_while_the_destination_is_down_one_at_a_time_tries_it():
    q = queue(concurrency=4)
    all_of_them = [parcel(offset) for offset in range(6)]
    for each in all_of_them:
        q.add(each)
    for each, _ in q.due(0):
        assert q.tried(each, GONE, 0.0, 5, 1.0) is Effect.PUT_BACK
        assert each.tries == 0
    assert q.down_since_us == 5
    assert q.due(0.5) == []
    assert q.next_s(0.5) == 1.0
    ((probe, _),) = q.due(1.0)
    assert q.due(1.0) == []
    q.tried(probe, GONE, 1.0, 6, 1.0)
    assert q.next_s(1.0) == 3.0
    ((probe, _),) = q.due(3.0)
    assert q.tried(probe, OK, 3.0, 7, 1.0) is Effect.ACK
    assert q.down_since_us is None
    assert len(q.due(3.0)) == 4


def test_where_unreachable_counts_it_is_a_failure_like_any_other():
    q = queue(waits_unreached=False)
    one = parcel(0)
    q.add(one)
    q.due(0)
    assert q.tried(one, GONE, 0, 0, 0.5) is Effect.COUNT
    assert q.down_since_us is None


def test_retry_after_is_honoured_for_one_message_or_for_all():
    q = queue()
    one, other = parcel(0), parcel(1)
    q.add(one)
    q.due(0)
    asks = Verdict(delivered=False, reached=True, status=500, retry_after_s=30.0)
    q.tried(one, asks, 0, 0, 0.0)
    assert q.next_s(0) == 30.0
    q.add(other)
    assert offsets(q.due(1)) == [1]
    quiet = Verdict(delivered=False, reached=True, status=429, retry_after_s=60.0, hold_all=True)
    q.tried(other, quiet, 1, 0, 0.0)
    q.add(parcel(2))
    assert q.due(60) == []
    assert sorted(offsets(q.due(61))) == [0, 1, 2]


def test_what_is_lost_is_forgotten_and_its_key_waits_for_what_is_under_way():
    q = queue()
    under_way, waiting = parcel(0, b"a"), parcel(1, b"a")
    q.add(under_way)
    q.add(waiting)
    q.due(0)
    assert q.lose("h") == [under_way, waiting]
    assert (q.held, q.held_bytes, q.busy) == (0, 0, 1)
    again = parcel(0, b"a", hold="h2")
    q.add(again)
    assert q.due(0) == []
    assert q.tried(under_way, OK, 0, 0, 0.5) is Effect.NONE
    assert q.due(0) == [(again, Effect.POST)]


def test_letting_the_idle_go_keeps_what_is_under_way():
    q = queue(concurrency=1)
    under_way, waiting = parcel(0), parcel(1)
    q.add(under_way)
    q.add(waiting)
    q.due(0)
    assert q.lose_idle("h") == [waiting]
    assert q.holds("h") == 1
    assert q.tried(under_way, OK, 0, 0, 0.5) is Effect.ACK
    assert q.holds("h") == 0


ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(0, 3)),
        st.tuples(st.just("end"), st.sampled_from([OK, OK, BAD, GONE]), st.integers(0, 10)),
        st.tuples(st.just("wait"), st.floats(0, 5)),
        st.tuples(st.just("lose"), st.integers(0, 1)),
    ),
    max_size=60,
)


@settings(max_examples=300, deadline=None)
@given(ACTIONS, st.booleans(), st.integers(1, 4), st.booleans())
def test_in_any_course_of_events_order_holds_and_every_parcel_ends(
    actions, ordered, concurrency, waits
):
    q = queue(concurrency, ordered, waits_unreached=waits)
    now, offset, under_way, parcels = 0.0, 0, [], []
    delivered, buried = [], []

    def drive(verdict, place):
        parcel, effect = under_way.pop(place % len(under_way))
        if effect is Effect.POST:
            effect = q.tried(parcel, verdict, now, 1, 0.5)
            if verdict.delivered:
                delivered.append(parcel)
        else:
            effect = q.buried(parcel, None if verdict.delivered else "full", now, 0.5)
            if verdict.delivered:
                buried.append(parcel)
        if effect is Effect.BURY:
            under_way.append((parcel, effect))

    def pump():
        under_way.extend(q.due(now))
        assert q.busy == len(under_way)
        assert len([each for each, effect in under_way if effect is Effect.POST]) <= concurrency
        keys = [each.key for each, _ in under_way if each.key is not None]
        if ordered:
            assert len(keys) == len(set(keys))

    for action in actions:
        if action[0] == "add":
            key = None if action[1] == 0 else bytes([action[1]])
            parcels.append(parcel(offset, key, hold=offset % 2))
            q.add(parcels[-1])
            offset += 1
        elif action[0] == "end" and under_way:
            drive(action[1], action[2])
        elif action[0] == "wait":
            now += action[1]
        elif action[0] == "lose":
            q.lose(action[1])
        pump()
    for _ in range(10_000):
        if not under_way and not q.held:
            break
        while under_way:
            drive(OK, 0)
        next_s = q.next_s(now)
        now = max(now, next_s if next_s is not None else now)
        pump()
    assert (q.held, q.held_bytes, q.busy) == (0, 0, 0)
    assert q.next_s(now) is None or not q._lanes
    settled = [each for each in parcels if each.state is State.SETTLED]
    assert all(each.state in (State.SETTLED, State.GONE) for each in parcels)
    done = [each for each in delivered + buried if each.state is State.SETTLED]
    assert sorted(each.offset for each in done) == sorted(each.offset for each in settled)
    if ordered:
        for key in {each.key for each in parcels if each.key is not None}:
            order = [each.offset for each in delivered if each.key == key]
            assert order == sorted(order)
