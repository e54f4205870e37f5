"""A batch that overtook the one before it waits for it; nobody else waits."""

import asyncio
from typing import Any

import pytest

from core_log.subscriptions.turns import PRODUCERS_MAX, Turns
from log_format.sequence import SEQUENCE_MAX

LONG_S = 3600.0
"""Nobody waits so long: the test's own timeout would end it."""


async def settled() -> None:
    """Let every task run until it waits for another."""
    for _ in range(5):
        await asyncio.sleep(0)


async def test_one_that_comes_first_and_one_that_is_next_go_at_once(frames: Any) -> None:
    turns = Turns(LONG_S)
    for sequence in (5, 6, 7):
        frame = frames.frame("orders", [b"a"], sequence=sequence)
        await turns.wait([frame])
        turns.submitted([frame])


async def test_those_that_overtook_go_in_order_once_the_one_before_them_went(frames: Any) -> None:
    turns = Turns(LONG_S)
    first, second, third, fourth = [
        frames.frame("orders", [b"a", b"b"], sequence=sequence) for sequence in (0, 2, 4, 6)
    ]
    turns.submitted([first])
    went: list[Any] = []

    async def go(frame: Any) -> None:
        await turns.wait([frame])
        turns.submitted([frame])
        went.append(frame)

    tasks = [asyncio.create_task(go(frame)) for frame in (fourth, third)]
    await settled()
    assert went == []
    await go(second)
    await asyncio.gather(*tasks)
    assert went == [second, third, fourth]


async def test_what_never_comes_is_waited_for_only_so_long(frames: Any) -> None:
    turns = Turns(0.001)
    turns.submitted([frames.frame("orders", [b"a"], sequence=0)])
    ahead = frames.frame("orders", [b"b"], sequence=9)
    await turns.wait([ahead])
    turns.submitted([ahead])
    # It was a gap, and does not count as the one before the next.
    turns.submitted([frames.frame("orders", [b"c"], sequence=1)])
    await Turns(LONG_S).wait([ahead])


@pytest.mark.parametrize("sequence", [0, 1, SEQUENCE_MAX - 3])
async def test_a_repeat_does_not_wait(frames: Any, sequence: int) -> None:
    turns = Turns(LONG_S)
    turns.submitted([frames.frame("orders", [b"a", b"b"], sequence=0)])
    await turns.wait([frames.frame("orders", [b"a"], sequence=sequence)])


async def test_numbers_wrap_around(frames: Any) -> None:
    turns = Turns(LONG_S)
    turns.submitted([frames.frame("orders", [b"a", b"b"], sequence=SEQUENCE_MAX)])
    await turns.wait([frames.frame("orders", [b"c"], sequence=1)])


@pytest.mark.parametrize(
    "other", [{"topic": "x"}, {"partition": 1}, {"producer_id": 2}, {"epoch": 1}]
)
async def test_producers_partitions_and_epochs_do_not_wait_for_each_other(
    frames: Any, other: Any
) -> None:
    turns = Turns(LONG_S)
    turns.submitted([frames.frame("orders", [b"a"], sequence=0)])
    await turns.wait([frames.frame(**{"topic": "orders", "sequence": 9, **other})])


async def test_frames_of_one_request_do_not_wait_for_each_other(frames: Any) -> None:
    turns = Turns(LONG_S)
    run = [frames.frame("orders", [b"a"], sequence=sequence) for sequence in (0, 1, 2)]
    turns.submitted(run[:1])
    await turns.wait(run[1:])


async def test_one_who_gives_up_leaves_nothing_behind(frames: Any) -> None:
    turns = Turns(LONG_S)
    turns.submitted([frames.frame("orders", [b"a"], sequence=0)])
    waiting = asyncio.create_task(turns.wait([frames.frame("orders", [b"b"], sequence=5)]))
    await settled()
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    assert waiting.cancelled()
    turns.submitted([frames.frame("orders", [b"b"], sequence=1)])


async def test_only_the_latest_producers_are_remembered(frames: Any) -> None:
    turns = Turns(LONG_S)
    one = frames.frame("orders", [b"a"], sequence=0)
    turns.submitted([one])
    for epoch in range(PRODUCERS_MAX):
        turns.submitted([frames.frame("orders", [b"a"], producer_id=epoch + 5, sequence=0)])
    await turns.wait([frames.frame("orders", [b"b"], sequence=9)])
