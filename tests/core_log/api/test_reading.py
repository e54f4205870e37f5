"""Reads: a strict query, whole frames, and a wait that ends as soon as there is something."""

import asyncio
import time
from typing import Any

import pytest

from core_log.api.query import BadQuery
from core_log.api.reading import (
    READ_BYTES_DEFAULT,
    READ_BYTES_MAX,
    WAIT_MS_MAX,
    Arrival,
    ReadAnswer,
    ReadQuery,
    headers_of,
    parse_read,
)
from core_log.log.results import Committed


def test_a_query_has_defaults_for_all_but_the_topic() -> None:
    assert parse_read([("topic", "orders")]) == ReadQuery("orders", 0, 0, READ_BYTES_DEFAULT, 0.0)
    whole = {"topic": "_audit", "partition": "3", "offset": "17", "max_bytes": "9", "wait_ms": "5"}
    assert parse_read(whole.items()) == ReadQuery("_audit", 3, 17, 9, 0.005)


@pytest.mark.parametrize(
    ("items", "problem"),
    [
        ({}, "topic: must be a string"),
        ({"topic": "a b"}, "topic: may hold letters"),
        ({"topic": "a", "partition": "-1"}, "partition: must be an integer between 0"),
        ({"topic": "a", "offset": "x"}, "offset: must be an integer"),
        ({"topic": "a", "max_bytes": str(READ_BYTES_MAX + 1)}, "max_bytes: must be an integer"),
        ({"topic": "a", "max_bytes": "0"}, "max_bytes: must be an integer between 1"),
        ({"topic": "a", "wait_ms": str(WAIT_MS_MAX + 1)}, "wait_ms: must be an integer"),
        ({"topic": "a", "limit": "3"}, "limit: is not known here"),
    ],
)
def test_a_bad_query_is_refused_with_the_reason(items: dict[str, str], problem: str) -> None:
    with pytest.raises(BadQuery) as caught:
        parse_read(items.items())
    assert problem in str(caught.value)


async def test_an_arrival_is_seen_only_beyond_the_offset() -> None:
    arrival = Arrival(5)
    seen = asyncio.ensure_future(arrival.seen())
    assert not arrival.offer(Committed("a", 0, 3, 2, 0, 0, b""))
    await asyncio.sleep(0)
    assert not seen.done()
    arrival.offer(Committed("a", 0, 4, 2, 0, 0, b""))
    arrival.offer(Committed("a", 0, 6, 2, 0, 0, b""))
    arrival.flush()
    await seen


async def read(core: Any, **query: Any) -> tuple[int, Any, Any]:
    parameters = "&".join(f"{name}={value}" for name, value in query.items())
    return await core.call("GET", f"/v1/read?{parameters}")  # type: ignore[no-any-return]


async def test_frames_come_back_with_the_places_to_go_on(start_core: Any, frames: Any) -> None:
    core = await start_core(auto_create_topics=True)
    await core.append(*(frames.encoded("orders", [b"%d" % n] * 2) for n in range(5)))
    status, body, headers = await read(core, topic="orders", offset=3)
    assert status == 200
    assert headers["Content-Type"] == "application/vnd.sidegate.frames"
    assert frames.values(body)[:2] == [b"1", b"1"], "the frame that holds the offset comes first"
    assert headers["Sidegate-Start-Offset"] == "0"
    assert headers["Sidegate-End-Offset"] == headers["Sidegate-Next-Offset"] == "10"
    _, one, headers = await read(core, topic="orders", offset=0, max_bytes=1)
    assert (frames.values(one), headers["Sidegate-Next-Offset"]) == ([b"0", b"0"], "2")


async def test_past_the_end_is_an_empty_answer(start_core: Any, frames: Any) -> None:
    core = await start_core(auto_create_topics=True)
    await core.append(frames.encoded("orders", [b"x"]))
    for offset in (1, 50):
        status, body, headers = await read(core, topic="orders", offset=offset)
        assert (status, body) == (200, b"")
        assert headers["Sidegate-Next-Offset"] == str(offset)


async def test_a_wait_ends_with_the_next_message_or_its_time(start_core: Any, frames: Any) -> None:
    core = await start_core(auto_create_topics=True)
    await core.append(frames.encoded("orders", [b"x"]))
    _, body, _ = await read(core, topic="orders", offset=1, wait_ms=20)
    assert body == b""
    waiting = asyncio.ensure_future(read(core, topic="orders", offset=1, wait_ms=30_000))
    await core.has_request()
    began = time.monotonic()
    await core.append(frames.encoded("other", [b"y"]), frames.encoded("orders", [b"z"]))
    _, body, _ = await waiting
    assert frames.values(body) == [b"z"]
    assert time.monotonic() - began < 30


async def test_a_wait_ends_when_the_core_stops(start_core: Any, frames: Any) -> None:
    core = await start_core(auto_create_topics=True)
    await core.append(frames.encoded("orders", [b"x"]))
    waiting = asyncio.ensure_future(read(core, topic="orders", offset=1, wait_ms=30_000))
    await core.has_request()
    assert await core.stop() == 0
    status, body, _ = await waiting
    assert (status, body) == (200, b"")


async def test_unknown_topics_and_partitions_are_named(start_core: Any) -> None:
    core = await start_core()
    status, problem, _ = await read(core, topic="orders")
    assert (status, problem["code"], problem["topic"]) == (404, "unknown_topic", "orders")
    status, problem, _ = await read(core, topic="_audit", partition=1)
    assert (status, problem["code"]) == (404, "unknown_partition")
    status, problem, _ = await read(core, topic="_audit", bytes=1)
    assert (status, problem["code"]) == (400, "bad_query")


async def test_reads_from_a_cold_disk_give_the_same_frames(start_core: Any, frames: Any) -> None:
    core = await start_core(auto_create_topics=True)
    await core.append(*(frames.encoded("orders", [b"%d" % n]) for n in range(50)))
    _, hot, _ = await read(core, topic="orders")
    await core.stop()
    again = await start_core()
    _, cold, _ = await read(again, topic="orders")
    assert cold == hot
    assert len(frames.values(cold)) == 50


def test_positions_are_headers() -> None:
    assert headers_of(ReadAnswer((), 1, 2, 3)) == {
        "Sidegate-Start-Offset": "1",
        "Sidegate-End-Offset": "2",
        "Sidegate-Next-Offset": "3",
    }
