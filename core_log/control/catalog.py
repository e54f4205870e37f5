"""The catalogue: which topics there are, which engine keeps each, and how they change.

Joins the pure decisions of `topics` to the control log and the engines. Must never know of HTTP.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import TypeVar

from core_log.clock import Clock, SystemClock
from core_log.control import topics
from core_log.control.control import ControlLog
from core_log.control.control_state import NOBODY, Cause, ControlState, Fact, TopicDeleted, TopicPut
from core_log.control.topic_log import TopicLog
from core_log.control.topics import (
    AUDIT_TOPIC,
    BadTopic,
    Change,
    Definition,
    Topic,
    UnknownTopic,
    check_delete,
)
from core_log.log.engine import Engine
from core_log.log.options import Retention
from log_format.errors import BadField
from log_format.topic import check_topic, is_system_topic

log = logging.getLogger("sidegate.core")

T = TypeVar("T")

Watcher = Callable[[str, Topic | None], None]
"""Is told of a topic's new definition, or of its end (None)."""


@dataclass(frozen=True, slots=True)
class Engines:
    """One engine for each kind of storage."""

    disk: Engine
    memory: Engine

    def of(self, definition: Definition) -> Engine:
        """The engine that keeps topics of this definition."""
        return self.memory if definition.storage == "memory" else self.disk


class Catalog:
    """All topics. Belongs to one event loop; changes are made one after the other."""

    def __init__(
        self,
        control: ControlLog,
        engines: Engines,
        *,
        auto_create: bool,
        clock: Clock | None = None,
    ) -> None:
        self._control = control
        self._engines = engines
        self._auto_create = auto_create
        self._clock = clock or SystemClock()
        self._watchers: list[Watcher] = []
        # Also covers the wait of a deletion for its last appends: a topic that is created again
        # must begin behind them.
        self._lock = asyncio.Lock()

    async def prepare(self) -> None:
        """Make the system's topics where they are missing, and tell the engines of all topics."""
        await self._create(Definition(AUDIT_TOPIC), NOBODY)
        for topic in self._control.state.topics.values():
            self._engines.of(topic.definition).put_topic(topic)

    def __len__(self) -> int:
        return len(self._control.state.topics)

    def names(self) -> list[str]:
        """All topics' names, in order."""
        return sorted(self._control.state.topics)

    def find(self, name: str) -> Topic | None:
        """A topic, if there is one of this name."""
        return self._control.state.topics.get(name)

    def get(self, name: str) -> Topic:
        """A topic, or UnknownTopic."""
        topic = self.find(name)
        if topic is None:
            raise UnknownTopic(name)
        return topic

    def log_of(self, topic: Topic) -> TopicLog:
        """The topic as its readers see it."""
        return TopicLog(topic, self._engines.of(topic.definition))

    def may_auto_create(self, name: str) -> bool:
        """True where a first use of this name makes the topic."""
        return self._auto_create and not is_system_topic(name)

    async def ensure(self, name: str, cause: Cause = NOBODY) -> Topic:
        """The topic; made with the defaults where it is missing and the configuration says so."""
        topic = self.find(name)
        if topic is not None:
            return topic
        if not self.may_auto_create(name):
            raise UnknownTopic(name)
        try:
            await _to_its_end(self._create(Definition(check_topic(name)), cause))
        except topics.TopicExists:
            # Somebody else made it, with a definition of their own, while this waited.
            pass
        except BadField as error:
            raise BadTopic(str(error)) from error
        return self.get(name)

    async def create(self, wanted: Definition, cause: Cause = NOBODY) -> tuple[Topic, bool]:
        """The topic, and whether this call made it. Raises TopicExists where it differs."""
        made = await _to_its_end(self._create(wanted, cause))
        return self.get(wanted.name), made

    async def alter(
        self, name: str, change: Change, *, if_version: int | None, cause: Cause = NOBODY
    ) -> Topic:
        """The topic after the change."""
        await _to_its_end(self._alter(name, change, if_version, cause))
        return self.get(name)

    async def delete(self, name: str, *, if_version: int | None, cause: Cause = NOBODY) -> None:
        """End the topic. Returns once no append to it is in flight."""
        await _to_its_end(self._delete(name, if_version, cause))

    def retention(self) -> dict[str, Retention]:
        """What the cleaner may free: by each topic's own retention, and all of deleted topics."""
        kept: dict[str, Retention] = {}
        for name, topic in self._control.state.topics.items():
            if topic.definition.storage == "disk":
                wanted = topic.definition.retention
                age_us = None if wanted.age_ms is None else wanted.age_ms * 1000
                below = {n: first for n, first in enumerate(topic.first_offsets) if first}
                kept[name] = Retention(age_us, wanted.bytes, below)
        deleted: dict[str, dict[int, int]] = {}
        for name, partition in self._engines.disk.partitions():
            if name not in kept:
                end = self._engines.disk.end_offset(name, partition)
                deleted.setdefault(name, {})[partition] = end
        return kept | {name: Retention(drop_below=ends) for name, ends in deleted.items()}

    def watch(self, watcher: Watcher) -> None:
        """Tell `watcher` of every change from now on."""
        self._watchers.append(watcher)

    async def _create(self, wanted: Definition, cause: Cause) -> bool:
        created: list[Topic] = []

        def decide(state: ControlState) -> list[Fact]:
            topic = topics.create(
                state.topics.get(wanted.name),
                wanted,
                topics=len(state.topics),
                now_us=self._clock.now_us(),
                version=state.version + 1,
                ends=self._ends(wanted),
            )
            if topic is not None:
                created.append(topic)
            return [TopicPut(each) for each in created]

        async with self._lock:
            await self._control.change(decide, cause)
            for topic in created:
                fields = {"topic": topic.name, "by": cause.principal}
                log.info("topic created", extra={"fields": fields})
                self._tell(topic)
        return bool(created)

    async def _alter(self, name: str, change: Change, if_version: int | None, cause: Cause) -> None:
        altered: list[Topic] = []

        def decide(state: ControlState) -> list[Fact]:
            existing = state.topics.get(name)
            if existing is None:
                raise UnknownTopic(name)
            topic = topics.alter(
                existing,
                change,
                if_version=if_version,
                version=state.version + 1,
                ends=self._ends(existing.definition),
            )
            if topic is not None:
                altered.append(topic)
            return [TopicPut(each) for each in altered]

        async with self._lock:
            await self._control.change(decide, cause)
            for topic in altered:
                fields = {"topic": name, "version": topic.version, "by": cause.principal}
                log.info("topic altered", extra={"fields": fields})
                self._tell(topic)

    async def _delete(self, name: str, if_version: int | None, cause: Cause) -> None:
        ended: list[Topic] = []

        def decide(state: ControlState) -> list[Fact]:
            existing = state.topics.get(name)
            if existing is None:
                raise UnknownTopic(name)
            check_delete(existing, if_version=if_version)
            ended.append(existing)
            return [TopicDeleted(name)]

        async with self._lock:
            await self._control.change(decide, cause)
            log.info("topic deleted", extra={"fields": {"topic": name, "by": cause.principal}})
            for watcher in self._watchers:
                watcher(name, None)
            for topic in ended:
                await self._engines.of(topic.definition).drop_topic(name)

    def _tell(self, topic: Topic) -> None:
        self._engines.of(topic.definition).put_topic(topic)
        for watcher in self._watchers:
            watcher(topic.name, topic)

    def _ends(self, definition: Definition) -> topics.Ends:
        if definition.storage == "memory":
            return lambda _: 0
        return lambda partition: self._engines.disk.end_offset(definition.name, partition)


async def _to_its_end(change: Coroutine[None, None, T]) -> T:
    """Run a change that goes on where its caller is cancelled: half of one is not an option."""
    return await asyncio.shield(asyncio.ensure_future(change))
