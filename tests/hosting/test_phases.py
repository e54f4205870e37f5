"""A service goes forward only, through every phase that it owes to those it serves."""

from itertools import product

import pytest

from hosting.phases import TRANSITIONS, Event, Phase, next_phase

ORDER = list(Phase)


@pytest.mark.parametrize(("phase", "event"), list(product(Phase, Event)))
def test_no_event_moves_a_service_back(phase: Phase, event: Event) -> None:
    assert ORDER.index(next_phase(phase, event)) >= ORDER.index(phase)


@pytest.mark.parametrize(("phase", "event"), list(product(Phase, Event)))
def test_a_pair_outside_the_table_changes_nothing(phase: Phase, event: Event) -> None:
    assert ((phase, event) in TRANSITIONS) == (next_phase(phase, event) is not phase)


@pytest.mark.parametrize("event", Event)
def test_a_running_service_never_stops_without_a_drain(event: Event) -> None:
    assert next_phase(Phase.RUNNING, event) in {Phase.RUNNING, Phase.DRAINING}


@pytest.mark.parametrize("event", Event)
def test_a_stopped_service_stays_stopped(event: Event) -> None:
    assert next_phase(Phase.STOPPED, event) is Phase.STOPPED


def test_every_phase_can_be_reached_and_leads_to_the_end() -> None:
    phase = Phase.NEW
    seen = [phase]
    for event in Event:
        phase = next_phase(phase, event)
        seen.append(phase)
    assert seen == ORDER
