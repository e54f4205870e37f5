"""The append path: from a request's body to one outcome per frame.

A thin shell: `intake` checks, the catalogue says where a frame belongs, an engine appends. What
is checked and submitted happens in one step of the event loop, so that no topic can be deleted
in between. Must never know of HTTP.
"""

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from core_log.api import intake
from core_log.control.catalog import Catalog
from core_log.control.control_state import Cause
from core_log.control.topics import TopicError
from core_log.log.engine import Engine, Outcome
from core_log.log.log_errors import DiskFull, LogError, Overloaded
from core_log.log.results import Refused
from core_log.metrics import CoreMetrics
from core_log.subscriptions.turns import Turns
from log_format.frame import Frame

INLINE_BYTES_MAX: Final = 1024 * 1024
"""Bodies up to this are checked on the event loop, in under a millisecond; a thread would cost
more than it saves. Larger or compressed ones would hold up every other connection."""
CHECK_THREADS: Final = 2
"""Checks of large bodies at a time: hashing leaves the interpreter's lock, so two use two cores."""
OVERLOADED_RETRY_MS: Final = 100
"""By then a disk has synced several groups."""
DISK_FULL_RETRY_MS: Final = 1000
"""The log looks for room several times a second; whoever makes room needs longer."""


class Appender:
    """Takes append requests. Belongs to the event loop."""

    def __init__(self, catalog: Catalog, metrics: CoreMetrics) -> None:
        self._catalog = catalog
        self._metrics = metrics
        self._turns = Turns()
        self._checkers = ThreadPoolExecutor(CHECK_THREADS, thread_name_prefix="append-check")

    def close(self) -> None:
        """Give the threads back."""
        self._checkers.shutdown(wait=False, cancel_futures=True)

    async def append(self, body: bytes | memoryview, cause: Cause) -> list[Outcome]:
        """Append every frame of `body`; outcomes in the frames' order.

        Raises BadFrames where the body is not a run of frames, and a LogError where the log as a
        whole can take nothing now and will not soon.
        """
        frames = intake.split(body)
        refusals = await self._check(frames)
        await self._make_topics(frames, refusals, cause)
        sound = [frame for frame, refusal in zip(frames, refusals, strict=True) if refusal is None]
        await self._turns.wait(sound)
        self._turns.submitted(sound)
        outcomes: list[Outcome | None] = list(refusals)
        waiting = [
            (places, self._submit(engine, [frames[place] for place in places]))
            for engine, places in self._route(frames, outcomes).items()
        ]
        for places, answer in waiting:
            results = answer if isinstance(answer, list) else await answer
            for place, outcome in zip(places, results, strict=True):
                outcomes[place] = outcome
        whole = [outcome for outcome in outcomes if outcome is not None]
        self._metrics.count_append(frames, whole)
        return whole

    async def _check(self, frames: Sequence[Frame]) -> list[Refused | None]:
        if intake.work_bytes(frames) <= INLINE_BYTES_MAX:
            return [intake.check(frame) for frame in frames]
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(
            self._checkers, lambda: [intake.check(frame) for frame in frames]
        )

    async def _make_topics(
        self, frames: Sequence[Frame], refusals: list[Refused | None], cause: Cause
    ) -> None:
        """Make the topics that a first append makes, where the configuration says so."""
        for place, frame in enumerate(frames):
            name = frame.envelope.producer.topic
            if refusals[place] is not None or self._catalog.find(name) is not None:
                continue
            try:
                await self._catalog.ensure(name, cause)
            except TopicError as error:
                refusals[place] = intake.refuse(frame, "unknown_topic", str(error))
            except (Overloaded, DiskFull) as error:
                refusals[place] = _pushed_back(frame, error)

    def _route(
        self, frames: Sequence[Frame], outcomes: list[Outcome | None]
    ) -> dict[Engine, list[int]]:
        """Which frames go to which engine, by their place in the request."""
        routes: dict[Engine, list[int]] = {}
        for place, frame in enumerate(frames):
            if outcomes[place] is not None:
                continue
            producer = frame.envelope.producer
            topic = self._catalog.find(producer.topic)
            if topic is None:
                text = f"topic {producer.topic!r} has just been deleted"
                outcomes[place] = intake.refuse(frame, "unknown_topic", text)
            elif producer.partition >= topic.partitions:
                outcomes[place] = intake.refuse(
                    frame,
                    "unknown_partition",
                    f"topic {topic.name!r} has the partitions 0 to {topic.partitions - 1}",
                    members={"partitions": topic.partitions},
                )
            else:
                routes.setdefault(self._catalog.log_of(topic).engine, []).append(place)
        return routes

    def _submit(
        self, engine: Engine, frames: Sequence[Frame]
    ) -> "asyncio.Future[Sequence[Outcome]] | list[Outcome]":
        """Submit to an engine; a refusal for each frame where it pushes back."""
        try:
            return asyncio.ensure_future(engine.append(frames))
        except (Overloaded, DiskFull) as error:
            return [_pushed_back(frame, error) for frame in frames]


def _pushed_back(frame: Frame, error: LogError) -> Refused:
    """A refusal that asks to try again, with the time to wait."""
    wait = OVERLOADED_RETRY_MS if isinstance(error, Overloaded) else DISK_FULL_RETRY_MS
    members = {**error.members, "retry_after_ms": wait}
    return intake.refuse(frame, error.code, str(error), retryable=True, members=members)
