"""What the sidecar knows of topics: how many partitions, and how messages are spread over them.

Asked for when a topic is first used and again after a while. While no gatekeeper answers, the last
known description holds, also one of an earlier run, and an unknown topic is taken to have the one
partition that all have.
"""

import asyncio
import math
import time
from collections.abc import Callable
from typing import Final

from sidecar.uplink.gateway import Gateway, Unreachable
from sidecar.uplink.topic_memory import TopicInfo, TopicMemory

FRESH_S: Final = 60.0
"""How long a description is used before it is asked for again: partitions are rarely added."""
GUESS_S: Final = 1.0
"""The same for a guess that was made while nobody answered."""
TOPICS_MAX: Final = 10_000
"""Descriptions that are kept; the oldest goes when one more comes."""


class Directory:
    """Descriptions by topic. Belongs to the event loop; a topic is asked for once at a time."""

    def __init__(
        self,
        gateway: Gateway,
        memory: TopicMemory | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._gateway = gateway
        self._memory = memory
        self._clock = clock
        self._known: dict[str, tuple[TopicInfo, float]] = {}
        if memory is not None:
            # Known, and to be asked for at once.
            self._known = {topic: (info, -math.inf) for topic, info in memory.topics.items()}
        self._asked: dict[str, asyncio.Task[TopicInfo]] = {}
        self._hurried = asyncio.Event()

    def known(self, topic: str) -> TopicInfo | None:
        """The description, if it needs no question now."""
        if self._hurried.is_set():
            return self._best_guess(topic)
        found = self._known.get(topic)
        return found[0] if found is not None and found[1] > self._clock() else None

    def latest(self, topic: str) -> TopicInfo | None:
        """The last known description, however old."""
        found = self._known.get(topic)
        return found[0] if found is not None else None

    def forget(self, topic: str) -> None:
        """The log has contradicted the description: ask again at the next use."""
        self._known.pop(topic, None)

    def hurry(self) -> None:
        """The sidecar stops: nobody waits for a description any longer, what is known has to do."""
        self._hurried.set()

    async def lookup(self, topic: str) -> TopicInfo:
        """The description, asked for where it is not known."""
        found = self.known(topic)
        if found is not None:
            return found
        task = self._asked.get(topic)
        if task is None:
            task = asyncio.create_task(self._ask(topic), name=f"describe {topic}")
            self._asked[topic] = task
            task.add_done_callback(lambda _: self._asked.pop(topic, None))
        hurried = asyncio.create_task(self._hurried.wait())
        try:
            await asyncio.wait({task, hurried}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            hurried.cancel()
        return task.result() if task.done() else self._best_guess(topic)

    def _best_guess(self, topic: str) -> TopicInfo:
        return self.latest(topic) or TopicInfo()

    async def _ask(self, topic: str) -> TopicInfo:
        info, fresh_s = self._best_guess(topic), GUESS_S
        try:
            answer = await self._gateway.ask(
                "GET",
                f"/v1/topics/{topic}",
                query={"create": "1", "ahead": "1"},
                timeout_s=2.0,
            )
        except Unreachable:
            pass
        else:
            described = parse_topic(answer.document()) if answer.status in (200, 201) else None
            if described is not None:
                info, fresh_s = described, FRESH_S
                if self._memory is not None:
                    self._memory.note(topic, info, TOPICS_MAX)
            # Any other answer is not publishing's to judge: the append will be told why.
        while len(self._known) >= TOPICS_MAX:
            del self._known[next(iter(self._known))]
        self._known[topic] = info, self._clock() + fresh_s
        return info


def parse_topic(document: object) -> TopicInfo | None:
    """A topic's description from the wire, or None where it is none."""
    if not isinstance(document, dict):
        return None
    partitions, strategy = document.get("partitions"), document.get("strategy")
    if not isinstance(partitions, int) or partitions < 1 or not isinstance(strategy, str):
        return None
    return TopicInfo(partitions, strategy)
