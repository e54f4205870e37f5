"""The table of a parcel's life is complete: every state hears every event that can reach it."""

import itertools

import pytest

from sidecar.push.parcel import ENDS, STEPS, UNDER_WAY, Effect, Event, IllegalStep, Parcel, State

IMPOSSIBLE = {
    # Only what is under way has an outcome.
    *itertools.product(
        (State.WAITING, State.RESTING, State.UNBURIED, State.SETTLED),
        (Event.DELIVERED, Event.FAILED, Event.NOT_REACHED, Event.EXHAUSTED),
    ),
    *itertools.product(
        (State.WAITING, State.RESTING, State.UNBURIED, State.SETTLED, State.SENDING),
        (Event.BURIED, Event.REFUSED),
    ),
    *itertools.product(
        (State.BURYING,), (Event.DELIVERED, Event.FAILED, Event.NOT_REACHED, Event.EXHAUSTED)
    ),
    # Only what waits is sent.
    *itertools.product((State.SENDING, State.BURYING, State.SETTLED, State.GONE), (Event.SENT,)),
}


def parcel(state):
    made = Parcel(None, 0, 0, key=None, size=1, tries=0, record=None)
    made.state = state
    return made


@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize("event", Event)
def test_every_pair_is_a_step_or_known_to_be_impossible(state, event):
    if (state, event) in IMPOSSIBLE:
        with pytest.raises(IllegalStep):
            parcel(state).move(event)
    else:
        made = parcel(state)
        effect = made.move(event)
        assert (made.state, effect) == STEPS[state, event]


def test_what_is_acknowledged_is_settled_and_nothing_else_is():
    for (_, event), (state, effect) in STEPS.items():
        assert (effect is Effect.ACK) == (state is State.SETTLED and event is not Event.LOST)


def test_nothing_leaves_an_end():
    for (before, _), (after, effect) in STEPS.items():
        if before in ENDS:
            assert after is before
            assert effect is Effect.NONE


def test_whatever_is_under_way_hears_of_its_outcome():
    for state in UNDER_WAY:
        outcomes = [event for (of, event) in STEPS if of is state and event is not Event.LOST]
        assert outcomes
