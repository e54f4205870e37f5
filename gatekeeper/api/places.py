"""Places in the past: whether a subscription may begin there, by what the policy lets see.

A stream from the past is held against its first frame's age. A subscription that begins, or is
moved, to the past is held against the same limit once, at that moment: what comes after it is its
own from then on, however long nobody takes it.
"""

import time
from typing import Any

from gatekeeper.api.call import core_object
from gatekeeper.api.gate import Gate
from gatekeeper.api.stream_messages import Start
from gatekeeper.audit.decisions import Ruling
from gatekeeper.core.upstream import RETRY_AFTER_S, CoreClient, OnBehalf
from gatekeeper.errors import CoreUnavailable


class Places:
    """Asks the core what a place means. Lives in one event loop."""

    def __init__(self, *, gate: Gate, core: CoreClient) -> None:
        self._gate = gate
        self._core = core

    async def require(
        self, ruling: Ruling, behalf: OnBehalf, start: Start, *, unnamed_move: bool
    ) -> None:
        """Raise Denied where `start` lies further back than the ruling reaches.

        `unnamed_move` says whether partitions that an object of offsets does not name begin at
        their earliest; else they stay where they are.
        """
        if ruling.max_age_s is None or start == "latest":
            return
        now_us = time.time_ns() // 1000
        cutoff_us = max(0, now_us - round(ruling.max_age_s * 1_000_000))
        if isinstance(start, dict) and "time_us" in start:
            if start["time_us"] < cutoff_us:
                raise self._gate.refuse_age(ruling)
            return
        path = f"/v1/topics/{ruling.topic}/offsets"
        answer = await self._core.ask("GET", path, behalf, query={"time_us": str(cutoff_us)})
        if answer.status == 404:
            # The core says so itself to what follows, or makes the topic.
            return
        try:
            partitions = core_object(answer)["partitions"]
            older = any(_begins(start, each, unnamed_move) < each["offset"] for each in partitions)
        except (LookupError, TypeError) as error:
            raise CoreUnavailable("the core's answer can't be read", RETRY_AFTER_S) from error
        if older:
            raise self._gate.refuse_age(ruling)


def _begins(start: Start, extent: dict[str, Any], unnamed_move: bool) -> int:
    """Where a partition would begin; its end where it would not move."""
    earliest = int(extent["start_offset"])
    if start == "earliest":
        return earliest
    offsets = start["offsets"] if isinstance(start, dict) else {}
    if str(extent["partition"]) in offsets:
        return max(earliest, int(offsets[str(extent["partition"])]))
    return earliest if unnamed_move else int(extent["end_offset"])
