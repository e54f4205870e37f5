"""Requests under way: which answers count when, over every order in which they may come."""

from itertools import permutations, product

import pytest

from sidecar.publish.batch import Ack, Entry, make_batch
from sidecar.publish.flight import (
    BATCHES_IN_FLIGHT_MAX,
    FLIGHTS_MAX,
    Flights,
    State,
    landed,
    may_follow,
)
from sidecar.publish.message import Message
from sidecar.publish.producer import ProducerEpoch
from sidecar.publish.results import IN_THE_LOG, AppendResult, Verdict

U, C, O = State.UNDER_WAY, State.COMMITTED, State.OTHER  # noqa: E741 - as the tables below read


def batches(count):
    entries = [Entry(Message("t", b"x", 1), Ack.CORE, None)]
    return [make_batch("t", 0, ProducerEpoch(7, 0), at, entries, at) for at in range(count)]


@pytest.mark.parametrize(
    ("states", "settled"),
    [
        ([U], 0),
        ([C], 1),
        ([O], 1),
        ([U, C], 0),
        ([U, O], 0),
        ([C, U], 1),
        ([O, U], 0),
        ([O, C], 2),
        ([C, O], 2),
        ([C, C, U], 2),
        ([C, O, U], 1),
        ([O, C, U], 0),
        ([U, C, O], 0),
        ([O, C, O], 3),
    ],
)
def test_what_is_committed_counts_from_the_front_and_everything_once_all_are_in(states, settled):
    assert landed(states) == settled


def test_no_answer_is_acted_upon_before_those_that_it_may_be_a_consequence_of():
    for size in range(1, FLIGHTS_MAX + 1):
        for states in product(State, repeat=size):
            count = landed(states)
            if State.UNDER_WAY in states:
                assert set(states[:count]) <= {State.COMMITTED}
                assert states[count] is not State.COMMITTED
            else:
                assert count == size


def test_another_follows_unless_there_are_enough_or_an_answer_needs_thought():
    for size in range(FLIGHTS_MAX + 1):
        for states in product(State, repeat=size):
            assert may_follow(states) is (size < FLIGHTS_MAX and State.OTHER not in states)


@pytest.mark.parametrize("verdict", Verdict)
def test_a_flight_is_committed_where_all_of_it_is_in_the_log(verdict):
    flight = Flights().begin(batches(2))
    assert flight.state is State.UNDER_WAY
    flight.answers = [AppendResult(Verdict.COMMITTED), AppendResult(verdict)]
    assert flight.state is (State.COMMITTED if verdict in IN_THE_LOG else State.OTHER)


def test_every_flight_lands_once_and_in_order_however_the_answers_come():
    for verdicts in product((Verdict.COMMITTED, Verdict.DOUBT), repeat=3):
        for order in permutations(range(3)):
            flights = Flights()
            begun = [flights.begin(batches(count)) for count in (1, 2, 1)]
            assert [flight.alone for flight in begun] == [True, False, False]
            assert (len(flights), flights.batches) == (3, 4)
            down = []
            for at in order:
                answers = [AppendResult(verdicts[at])] * len(begun[at].batches)
                down += flights.answer(begun[at], answers)
                assert flights.batches == 4 - sum(len(each.batches) for each in down)
            assert down == begun
            assert len(flights) == 0


def test_one_that_is_sent_when_all_others_have_landed_is_alone_again():
    flights = Flights()
    flights.answer(flights.begin(batches(1)), [AppendResult(Verdict.COMMITTED)])
    assert flights.begin(batches(1)).alone


def test_five_batches_are_under_way_at_most():
    flights = Flights()
    flights.begin(batches(BATCHES_IN_FLIGHT_MAX - 1))
    assert flights.may_follow
    flights.begin(batches(1))
    assert not flights.may_follow


def test_an_answer_of_another_length_is_refused_and_changes_nothing():
    flights = Flights()
    flight = flights.begin(batches(2))
    with pytest.raises(ValueError, match="1 answers to 2 batches"):
        flights.answer(flight, [AppendResult(Verdict.COMMITTED)])
    assert flight.state is State.UNDER_WAY
