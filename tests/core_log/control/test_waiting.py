"""The first to end decides; the others leave nothing behind."""

import asyncio

import pytest

from core_log.control.waiting import first_of


async def test_it_returns_with_the_first_and_cancels_the_rest() -> None:
    event = asyncio.Event()
    cancelled = asyncio.Event()

    async def slow() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    asyncio.get_running_loop().call_soon(event.set)
    await first_of(event.wait(), slow())
    assert cancelled.is_set()


async def test_an_error_of_the_first_is_raised() -> None:
    async def fails() -> None:
        raise LookupError("why")

    with pytest.raises(LookupError, match="why"):
        await first_of(fails(), asyncio.Event().wait())


async def test_it_ends_when_the_time_is_up() -> None:
    await first_of(asyncio.Event().wait(), timeout_s=0.001)


async def test_cancelling_it_cancels_what_it_waits_for() -> None:
    started, cancelled = asyncio.Event(), asyncio.Event()

    async def slow() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    waiting = asyncio.create_task(first_of(slow()))
    await started.wait()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert cancelled.is_set()
