"""Handshakes in progress: a flood pushes out itself."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatekeeper.api.handshakes import Handshakes, source_of


def test_while_there_is_room_nobody_goes() -> None:
    handshakes: Handshakes[int] = Handshakes(2)
    handshakes.begin(1, "a")
    assert handshakes.victim() is None
    handshakes.begin(2, "a")
    assert handshakes.victim() == 1


def test_the_oldest_of_the_source_that_has_most_goes() -> None:
    handshakes: Handshakes[int] = Handshakes(4)
    handshakes.begin(1, "honest")
    for key in (2, 3, 4):
        handshakes.begin(key, "flood")
    assert handshakes.victim() == 2


@given(st.lists(st.sampled_from("abc"), max_size=200))
def test_never_more_than_agreed_and_only_the_busiest_source_loses(sources: list[str]) -> None:
    handshakes: Handshakes[int] = Handshakes(8)
    for key, source in enumerate(sources):
        victim = handshakes.victim()
        if victim is not None:
            held = [sources[each] for each in handshakes]
            assert held.count(sources[victim]) == max(map(held.count, held))
            assert victim == min(each for each in handshakes if sources[each] == sources[victim])
            assert handshakes.end(victim)
        handshakes.begin(key, source)
        assert len(handshakes) <= 8


def test_an_end_is_counted_once() -> None:
    handshakes: Handshakes[int] = Handshakes(1)
    handshakes.begin(1, "a")
    assert handshakes.end(1)
    assert not handshakes.end(1)
    assert len(handshakes) == 0
    assert handshakes.victim() is None


@pytest.mark.parametrize(
    ("peer", "source"),
    [
        (("10.0.0.1", 5), "10.0.0.1"),
        (("2001:db8::1", 5, 0, 0), "2001:db8::"),
        (("2001:db8::ffff:1", 5, 0, 0), "2001:db8::"),
        (("::ffff:10.0.0.1", 5, 0, 0), "10.0.0.1"),
        (("fe80::1%eth0", 5, 0, 2), "fe80::"),
        ("", ""),
        (None, ""),
    ],
)
def test_where_a_connection_comes_from(peer: object, source: str) -> None:
    assert source_of(peer) == source
