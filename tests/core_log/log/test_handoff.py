"""Values reach the loop in order, with one wake-up for all that wait."""

import asyncio
import threading
from collections.abc import Sequence

from core_log.log.handoff import Handoff


async def test_values_from_a_thread_arrive_on_the_loop_in_order() -> None:
    taken: list[int] = []
    all_there = asyncio.Event()
    on_loop = threading.get_ident()

    def take(items: Sequence[int]) -> None:
        assert threading.get_ident() == on_loop
        taken.extend(items)
        if len(taken) == 1000:
            all_there.set()

    handoff = Handoff(asyncio.get_running_loop(), take)
    await asyncio.to_thread(lambda: [handoff.put(number) for number in range(1000)])
    await all_there.wait()
    assert taken == list(range(1000))


async def test_what_waits_together_is_taken_together() -> None:
    portions: asyncio.Queue[list[int]] = asyncio.Queue()
    handoff: Handoff[int] = Handoff(
        asyncio.get_running_loop(), lambda items: portions.put_nowait(list(items))
    )
    for number in range(16):
        handoff.put(number)
    assert portions.empty(), "nothing is taken before the loop has its turn"
    assert await portions.get() == list(range(16))
    handoff.put(16)
    assert await portions.get() == [16]
