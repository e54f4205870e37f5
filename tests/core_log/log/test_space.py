"""The disk's reserve: refused in time, and taken again without help."""

from pathlib import Path
from typing import Any

import pytest

from core_log.log.space import LOOK_S, RECHECK_S, Space


class Room:
    """A file system that only knows how full it is."""

    def __init__(self, free: int) -> None:
        self.free = free
        self.looks = 0

    def free_bytes(self, directory: Path) -> int:
        self.looks += 1
        return self.free


@pytest.fixture
def room() -> Any:
    return Room(10_000)


@pytest.fixture
def space(room: Any, manual_clock: Any) -> Any:
    return Space(room, Path("log"), manual_clock, reserve=1000, margin=500)


def test_there_is_room_until_the_reserve_is_reached(room: Any, space: Any) -> None:
    assert space.may_append()
    room.free = 1200
    space.took(8800)
    assert space.may_append()
    room.free = 900
    space.took(300)
    assert not space.may_append()
    assert "900 bytes free, and 1000 are kept" in space.refusal()


def test_a_full_disk_is_looked_at_again_from_time_to_time(
    room: Any, space: Any, manual_clock: Any
) -> None:
    space.found_full()
    looks = room.looks
    assert not any(space.may_append() for _ in range(100))
    assert room.looks == looks
    manual_clock.seconds += RECHECK_S
    assert space.may_append()


def test_it_comes_back_only_with_room_for_a_group_above_the_reserve(
    room: Any, space: Any, manual_clock: Any
) -> None:
    space.found_full()
    for free, expected in ((1000, False), (1499, False), (1500, True)):
        room.free = free
        manual_clock.seconds += RECHECK_S
        assert space.may_append() is expected


def test_far_from_the_reserve_it_asks_the_system_once_a_second(
    room: Any, space: Any, manual_clock: Any
) -> None:
    looks = room.looks
    for _ in range(100):
        space.took(10)
    assert room.looks == looks
    manual_clock.seconds += LOOK_S
    space.took(10)
    assert room.looks == looks + 1
    assert space.free == room.free


def test_others_who_fill_the_disk_are_noticed_within_that_second(
    room: Any, space: Any, manual_clock: Any
) -> None:
    room.free = 10
    manual_clock.seconds += LOOK_S
    space.took(1)
    assert not space.may_append()


def test_the_systems_own_topics_may_use_a_quarter_of_the_reserve(room: Any, space: Any) -> None:
    room.free = 999
    space.took(9001)
    assert not space.may_append()
    assert space.may_append(of_system=True)
    room.free = 750
    space.took(249)
    assert not space.may_append(of_system=True)


def test_nobody_may_append_once_a_write_has_found_no_room(
    room: Any, space: Any, manual_clock: Any
) -> None:
    space.found_full()
    assert not space.may_append(of_system=True)
    room.free = 900
    manual_clock.seconds += RECHECK_S
    assert not space.may_append()
    assert space.may_append(of_system=True)


def test_a_full_disk_and_its_end_are_each_logged_once(
    room: Any, space: Any, manual_clock: Any, caplog: pytest.LogCaptureFixture
) -> None:
    room.free = 900
    for _ in range(3):
        space.look()
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert "appends are refused" in caplog.text
    room.free = 5000
    manual_clock.seconds += RECHECK_S
    assert space.may_append()
    assert [record.levelname for record in caplog.records] == ["ERROR", "WARNING"]
