import signal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidegate.development import supervisor
from sidegate.development.supervisor import GiveUp, Restart, after_death, how_it_ended, is_impatient


def delays(healthy_s: list[float]) -> list[float]:
    deaths, seen = 0, []
    for healthy in healthy_s:
        decision = after_death(1, deaths=deaths, healthy_s=healthy, was_ready=True)
        assert isinstance(decision, Restart)
        deaths = decision.deaths
        seen.append(decision.delay_s)
    return seen


def test_the_delay_begins_at_200_ms_and_doubles_to_5_s() -> None:
    assert delays([0.0] * 8) == pytest.approx([0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0, 5.0])


def test_ten_healthy_seconds_begin_anew() -> None:
    assert delays([0, 0, 0, 10.0, 0]) == pytest.approx([0.2, 0.4, 0.8, 0.2, 0.4])


def test_less_than_ten_healthy_seconds_do_not() -> None:
    assert delays([0, 0, 9.99]) == pytest.approx([0.2, 0.4, 0.8])


@given(st.integers(0, 10**6), st.floats(0, 10**6), st.integers(-64, 255))
def test_a_service_that_ran_before_is_always_started_again(
    deaths: int, healthy_s: float, exit_code: int
) -> None:
    decision = after_death(exit_code, deaths=deaths, healthy_s=healthy_s, was_ready=True)
    assert isinstance(decision, Restart)
    assert supervisor.FIRST_DELAY_S <= decision.delay_s <= supervisor.LONGEST_DELAY_S


def test_a_wrong_configuration_at_the_first_start_is_not_tried_again() -> None:
    assert isinstance(after_death(2, deaths=0, healthy_s=0, was_ready=False), GiveUp)


@pytest.mark.parametrize("exit_code", [0, 1, -9, -11, 3])
def test_any_other_death_during_the_first_start_is_tried_again(exit_code: int) -> None:
    assert isinstance(after_death(exit_code, deaths=0, healthy_s=0, was_ready=False), Restart)


def test_a_service_that_never_starts_is_tried_three_times() -> None:
    for deaths, kind in ((0, Restart), (1, Restart), (2, GiveUp), (3, GiveUp)):
        assert isinstance(after_death(1, deaths=deaths, healthy_s=0, was_ready=False), kind)
    assert isinstance(after_death(-9, deaths=9, healthy_s=0, was_ready=False), Restart)


def test_all_waves_of_a_stop_fit_into_its_time() -> None:
    assert 3 * supervisor.STOP_WAVE_S_MAX <= supervisor.STOP_S_MAX < 5


def test_an_end_is_told_in_words() -> None:
    assert how_it_ended(1) == "ended with exit code 1"
    assert how_it_ended(-signal.SIGKILL) == "was killed by SIGKILL"
    assert how_it_ended(-200) == "was killed by signal 200"


def test_only_a_second_ctrl_c_that_a_person_can_have_pressed_is_impatience() -> None:
    assert is_impatient(signal.SIGINT, 1.0)
    assert not is_impatient(signal.SIGINT, 0.01)
    assert not is_impatient(signal.SIGTERM, 1.0)
    assert not is_impatient(signal.SIGHUP, 1.0)
