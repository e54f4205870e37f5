"""Waiting for the first of several things, and leaving nothing behind."""

import asyncio
from collections.abc import Coroutine


async def first_of(*waits: Coroutine[None, None, object], timeout_s: float | None = None) -> None:
    """Return once one of `waits` has ended or the time is up; the others are cancelled.

    An error of the one that ended is raised. Cancelling this cancels them all.
    """
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    try:
        done, _ = await asyncio.wait(tasks, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in done:
        task.result()
