"""The catalogue: topics that come, change and go, and what becomes of their messages."""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from core_log.control.catalog import Catalog, Engines
from core_log.control.control import OPTIONS, ControlLog
from core_log.control.memory_topics import MemoryTopics
from core_log.control.topics import (
    AUDIT_TOPIC,
    BadTopic,
    Change,
    Definition,
    Retention,
    Topic,
    TopicChanged,
    TopicExists,
    UnknownTopic,
)
from core_log.log.embedded import EmbeddedEngine
from core_log.log.options import LogOptions
from core_log.log.options import Retention as LogRetention

MakeCatalog = Callable[..., Any]


def no_failure(error: Exception) -> None:
    raise AssertionError(error)


@pytest.fixture
async def make_catalog(tmp_path: Path) -> AsyncIterator[MakeCatalog]:
    opened: list[ControlLog | EmbeddedEngine] = []

    async def make(*, auto_create: bool = False) -> tuple[Catalog, Engines]:
        control = await ControlLog.open(
            tmp_path / "control",
            on_failure=no_failure,
            options=replace(OPTIONS, disk_reserve_bytes=0),
        )
        opened.append(control)
        disk = await EmbeddedEngine.open(
            tmp_path / "log", LogOptions(disk_reserve_bytes=0), on_failure=no_failure
        )
        opened.append(disk)
        engines = Engines(disk, MemoryTopics())
        catalog = Catalog(control, engines, auto_create=auto_create)
        await catalog.prepare()
        return catalog, engines

    yield make
    for each in opened:
        await each.close()


async def test_the_systems_topic_is_there_from_the_start(make_catalog: MakeCatalog) -> None:
    catalog, _ = await make_catalog()
    assert catalog.names() == [AUDIT_TOPIC]
    assert len(catalog) == 1


async def test_a_topic_is_made_once_and_found(make_catalog: MakeCatalog) -> None:
    catalog, _ = await make_catalog()
    topic, made = await catalog.create(Definition("orders", 2))
    assert made
    assert await catalog.create(Definition("orders", 2)) == (topic, False)
    assert catalog.get("orders") == topic
    with pytest.raises(TopicExists):
        await catalog.create(Definition("orders", 3))
    with pytest.raises(UnknownTopic):
        catalog.get("payments")


async def test_versions_rise_with_every_change_of_any_topic(make_catalog: MakeCatalog) -> None:
    catalog, _ = await make_catalog()
    first, _ = await catalog.create(Definition("a"))
    second, _ = await catalog.create(Definition("b"))
    altered = await catalog.alter("a", Change(partitions=2), if_version=first.version)
    await catalog.delete("a", if_version=altered.version)
    again, _ = await catalog.create(Definition("a"))
    versions = [first.version, second.version, altered.version, again.version]
    assert versions == sorted(set(versions))
    with pytest.raises(TopicChanged):
        await catalog.alter("a", Change(partitions=2), if_version=first.version)


async def test_a_first_use_makes_a_topic_only_where_that_is_configured(
    make_catalog: MakeCatalog,
) -> None:
    catalog, _ = await make_catalog(auto_create=True)
    topics = await asyncio.gather(*(catalog.ensure("orders") for _ in range(5)))
    assert len(set(topics)) == 1
    assert topics[0].definition == Definition("orders")
    with pytest.raises(UnknownTopic):
        await catalog.ensure("_other")
    with pytest.raises(BadTopic):
        await catalog.ensure("a b")


async def test_without_that_a_first_use_is_refused(make_catalog: MakeCatalog) -> None:
    catalog, _ = await make_catalog()
    with pytest.raises(UnknownTopic):
        await catalog.ensure("orders")


async def test_each_kind_of_storage_has_its_engine(make_catalog: MakeCatalog) -> None:
    catalog, engines = await make_catalog()
    disk, _ = await catalog.create(Definition("orders"))
    memory, _ = await catalog.create(Definition("live", storage="memory"))
    assert catalog.log_of(disk).engine is engines.disk
    assert catalog.log_of(memory).engine is engines.memory


async def test_a_topic_created_again_begins_behind_the_old_ones_messages(
    make_catalog: MakeCatalog, frames: Any
) -> None:
    catalog, engines = await make_catalog()
    await catalog.create(Definition("orders"))
    await engines.disk.append([frames.frame("orders", [b"old", b"old"])])
    await catalog.delete("orders", if_version=None)
    assert catalog.find("orders") is None
    topic, _ = await catalog.create(Definition("orders", 2))
    assert topic.first_offsets == (2, 0)
    log = catalog.log_of(topic)
    assert (await log.read(0, 0, 10**6)).frames == ()
    await engines.disk.append([frames.frame("orders", [b"new"])])
    result = await log.read(0, 0, 10**6)
    assert frames.values(b"".join(result.frames)) == [b"new"]
    assert frames.offset(result.frames[0]) == 2


async def test_appends_in_flight_at_the_deletion_end_before_the_name_is_used_again(
    make_catalog: MakeCatalog, frames: Any
) -> None:
    catalog, engines = await make_catalog()
    await catalog.create(Definition("orders"))
    answers = [engines.disk.append([frames.frame("orders", [b"x"])]) for _ in range(50)]
    deleted = asyncio.ensure_future(catalog.delete("orders", if_version=None))
    topic, _ = await asyncio.ensure_future(_delayed_create(catalog, deleted))
    assert all(answer.done() for answer in answers)
    assert topic.first_offsets == (50,)


async def _delayed_create(catalog: Catalog, deleted: "asyncio.Future[None]") -> Any:
    await asyncio.sleep(0)
    answer = await catalog.create(Definition("orders", 1, "sticky"))
    assert deleted.done()
    return answer


async def test_what_the_cleaner_may_free(make_catalog: MakeCatalog, frames: Any) -> None:
    catalog, engines = await make_catalog()
    await catalog.create(Definition("gone", 1))
    await catalog.create(Definition("orders", 1, retention=Retention(age_ms=5, bytes=7)))
    await catalog.create(Definition("again", 2))
    await catalog.create(Definition("live", storage="memory"))
    await engines.disk.append(
        [frames.frame("gone", [b"x"]), frames.frame("again", [b"x", b"y"], partition=1)]
    )
    await catalog.delete("gone", if_version=None)
    await catalog.delete("again", if_version=None)
    await catalog.create(Definition("again", 2))
    assert catalog.retention() == {
        AUDIT_TOPIC: LogRetention(),
        "orders": LogRetention(5000, 7),
        "again": LogRetention(drop_below={1: 2}),
        "gone": LogRetention(drop_below={0: 1}),
    }


async def test_watchers_hear_of_every_change(make_catalog: MakeCatalog) -> None:
    catalog, _ = await make_catalog()
    heard: list[tuple[str, Topic | None]] = []
    catalog.watch(lambda name, topic: heard.append((name, topic)))
    made, _ = await catalog.create(Definition("orders"))
    altered = await catalog.alter("orders", Change(partitions=2), if_version=None)
    await catalog.alter("orders", Change(partitions=2), if_version=None)
    await catalog.delete("orders", if_version=None)
    assert heard == [("orders", made), ("orders", altered), ("orders", None)]


async def test_a_change_whose_caller_is_cancelled_is_whole(make_catalog: MakeCatalog) -> None:
    catalog, _ = await make_catalog()
    heard = asyncio.Event()
    catalog.watch(lambda name, topic: heard.set())
    create = asyncio.ensure_future(catalog.create(Definition("orders")))
    await asyncio.sleep(0)
    create.cancel()
    with pytest.raises(asyncio.CancelledError):
        await create
    await heard.wait()
    assert catalog.find("orders") is not None


async def test_only_what_exists_can_be_altered_or_deleted(make_catalog: MakeCatalog) -> None:
    catalog, _ = await make_catalog()
    with pytest.raises(UnknownTopic):
        await catalog.alter("orders", Change(partitions=2), if_version=None)
    with pytest.raises(UnknownTopic):
        await catalog.delete("orders", if_version=None)
    with pytest.raises(BadTopic):
        await catalog.delete(AUDIT_TOPIC, if_version=None)
