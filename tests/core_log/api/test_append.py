"""The append path: one result per frame, in order, whatever happens to the others."""

import asyncio
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from core_log.api.append import INLINE_BYTES_MAX
from core_log.config import LogConfig
from core_log.log.files import Mode, OsFiles
from log_format.envelope import Codec
from log_format.parts import Provenance

MIB = 1024 * 1024


@pytest.fixture
async def orders(start_core: Any) -> Any:
    core = await start_core()
    await core.call("POST", "/v1/topics", json={"name": "orders", "partitions": 2})
    return core


def codes(results: list[dict[str, Any]]) -> list[str]:
    return [result.get("error", "ok") for result in results]


async def test_each_frame_gets_its_own_result_in_order(orders: Any, frames: Any) -> None:
    results = await orders.append(
        frames.encoded("orders", [b"a", b"b"]),
        frames.encoded("payments", [b"c"]),
        frames.encoded("orders", [b"d"], partition=2),
        frames.encoded("orders", [b"e"], partition=1),
        frames.encoded("orders", [b"f"], provenance=None, producer_id=9),
        frames.encoded("orders", [b"g"]),
    )
    assert codes(results) == [
        "ok",
        "unknown_topic",
        "unknown_partition",
        "ok",
        "bad_frame",
        "ok",
    ]
    assert [results[n]["base_offset"] for n in (0, 3, 5)] == [0, 0, 2]
    assert [results[n]["leaf"] for n in (0, 3, 5)] == [0, 1, 2]
    assert results[0]["durability"] == "committed"
    assert results[2]["partitions"] == 2
    assert all(isinstance(result["detail"], str) for result in results if "error" in result)


async def test_a_repeat_returns_its_first_offset_and_a_gap_is_refused(
    orders: Any, frames: Any
) -> None:
    first = frames.encoded("orders", [b"a", b"b"])
    again, gap = first, frames.encoded("orders", [b"c"], sequence=7)
    results = await orders.append(first, again, gap)
    assert [result.get("duplicate") for result in results] == [False, True, None]
    assert results[1]["base_offset"] == 0
    assert results[1]["leaf"] == results[0]["leaf"]
    assert (results[2]["error"], results[2]["expected_sequence"]) == ("sequence_gap", 2)
    assert results[2]["retryable"]


async def test_requests_of_one_producer_that_overtake_each_other_are_appended_in_order(
    orders: Any, frames: Any
) -> None:
    first = await orders.append(frames.encoded("orders", [b"0"]))
    large = frames.encoded("orders", [b"1" * (2 * INLINE_BYTES_MAX)])
    small = [frames.encoded("orders", [b"%d" % number]) for number in (2, 3)]
    # The last is sent first; the large one is checked in a thread, the others at once.
    requests = [asyncio.create_task(orders.append(each)) for each in (small[1], large, small[0])]
    results = first + [result for each in await asyncio.gather(*requests) for result in each]
    assert codes(results) == ["ok"] * 4
    assert [result["base_offset"] for result in results] == [0, 3, 1, 2]


async def test_a_newer_epoch_fences_the_older_one_of_the_same_principal_only(
    orders: Any, frames: Any, provenance: Provenance
) -> None:
    other = replace(provenance, principal="shipping")
    results = await orders.append(
        frames.encoded("orders", [b"a"], sequence=0),
        frames.encoded("orders", [b"b"], sequence=0, epoch=1),
        frames.encoded("orders", [b"c"], sequence=1),
        frames.encoded("orders", [b"d"], sequence=0, provenance=other),
    )
    assert codes(results) == ["ok", "ok", "fenced", "ok"]
    assert results[2]["current_epoch"] == 1


async def test_after_a_refusal_the_following_frames_of_that_producer_are_gaps(
    orders: Any, frames: Any
) -> None:
    bad = bytearray(frames.encoded("orders", [b"a"]))
    bad[-20] ^= 1
    results = await orders.append(bytes(bad), frames.encoded("orders", [b"b"]))
    assert codes(results) == ["bad_frame", "sequence_gap"]
    assert "SHA-256" in results[0]["detail"]
    assert not results[0]["retryable"]


async def test_a_body_that_is_no_run_of_frames_appends_nothing(orders: Any, frames: Any) -> None:
    good = frames.encoded("orders", [b"a"], sequence=0)
    for bad in (good + b"junk", good + good[:-1], b"", b"GET / HTTP/1.1\r\n\r\n"):
        status, problem, headers = await orders.call("POST", "/v1/append", data=bad)
        assert (status, problem["code"]) == (400, "bad_frame")
        assert headers["Content-Type"] == "application/problem+json"
        assert problem["frame"] == (1 if bad.startswith(good) else 0)
    _, status, _ = await orders.call("GET", "/v1/status")
    assert status["leaves"] == 0


async def test_large_and_compressed_bodies_are_checked_and_appended(
    orders: Any, frames: Any
) -> None:
    large = frames.encoded("orders", [bytes(INLINE_BYTES_MAX)] * 3)
    packed = frames.encoded("orders", [bytes(2 * MIB)], codec=Codec.ZSTD)
    assert codes(await orders.append(large, packed)) == ["ok", "ok"]
    broken = bytearray(frames.encoded("orders", [bytes(2 * MIB)]))
    broken[-1000] ^= 1
    assert codes(await orders.append(bytes(broken))) == ["bad_frame"]


async def test_a_request_above_the_limit_is_refused_without_reading_it_all(orders: Any) -> None:
    status, problem, _ = await orders.call("POST", "/v1/append", data=bytes(33 * MIB))
    assert (status, problem["code"]) == (413, "too_large")


async def test_topics_are_made_on_first_use_where_that_is_configured(
    start_core: Any, frames: Any
) -> None:
    core = await start_core(auto_create_topics=True)
    results = await core.append(
        frames.encoded("orders.eu", [b"a"]),
        frames.encoded("orders.us", [b"b"]),
        frames.encoded("orders.eu", [b"c"]),
        frames.encoded("_other", [b"d"]),
    )
    assert codes(results) == ["ok", "ok", "ok", "denied"]
    _, topics, _ = await core.call("GET", "/v1/topics")
    assert [topic["name"] for topic in topics["topics"]] == ["_audit", "orders.eu", "orders.us"]


async def test_gatekeepers_write_the_decision_log_and_clients_do_not(
    start_core: Any, frames: Any, provenance: Provenance
) -> None:
    core = await start_core()
    own = replace(provenance, principal=provenance.gatekeeper_id)
    results = await core.append(
        frames.encoded("_audit", [b"decision"], provenance=own),
        frames.encoded("_audit", [b"forged"], producer_id=2),
    )
    assert codes(results) == ["ok", "denied"]


async def test_memory_topics_answer_with_their_own_durability(orders: Any, frames: Any) -> None:
    await orders.call("POST", "/v1/topics", json={"name": "live", "storage": "memory"})
    results = await orders.append(
        frames.encoded("live", [b"a"]),
        frames.encoded("orders", [b"b"]),
        frames.encoded("live", [b"c"]),
    )
    assert [result["durability"] for result in results] == ["memory", "committed", "memory"]
    assert [result["leaf"] for result in results] == [None, 0, None]
    assert [result["base_offset"] for result in results] == [0, 0, 1]


class SlowSyncs(OsFiles):
    """Files whose segments' syncs wait until they are let through."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.gate.set()

    def open(self, path: Path, mode: Mode) -> Any:
        file = super().open(path, mode)
        gate = self.gate

        class Slow:
            def __getattr__(self, name: str) -> Any:
                return getattr(file, name)

            def sync(self) -> None:
                gate.wait()
                file.sync()

        return Slow() if path.suffix == ".seg" and "control" not in path.parts else file


async def test_too_much_in_flight_is_pushed_back_per_frame_and_passes_later(
    start_core: Any, frames: Any, eventually: Any
) -> None:
    files = SlowSyncs()
    log = LogConfig(in_flight_bytes_max=64 * 1024, disk_reserve_bytes=0)
    core = await start_core(files=files, log=log, auto_create_topics=True)
    await core.call("POST", "/v1/topics", json={"name": "orders"})
    files.gate.clear()
    held = asyncio.ensure_future(core.append(frames.encoded("orders", [b"x" * 60_000])))
    await eventually(lambda: core.core.storage.disk.status().in_flight_bytes)
    other = frames.encoded("orders", [b"y" * 60_000], producer_id=2)
    refused = (await core.append(other))[0]
    assert (refused["error"], refused["retryable"]) == ("overloaded", True)
    assert refused["retry_after_ms"] > 0
    files.gate.set()
    assert codes(await held) == ["ok"]
    assert codes(await core.append(other)) == ["ok"]


class FullDisk(OsFiles):
    """A disk on which somebody else can use up all the room."""

    free = 10**12

    def free_bytes(self, directory: Path) -> int:
        return self.free


async def test_a_full_disk_refuses_appends_serves_reads_and_comes_back(
    start_core: Any, frames: Any
) -> None:
    files = FullDisk()
    log = LogConfig(disk_reserve_bytes=100 * MIB)
    core = await start_core(files=files, log=log, auto_create_topics=True)
    await core.append(frames.encoded("orders", [b"a"]))
    files.free = 50 * MIB
    late = frames.encoded("orders", [b"b"])
    results = await core.append(late)
    while codes(results) == ["ok"]:
        late = frames.encoded("orders", [b"b"])
        results = await core.append(late)
    assert (results[0]["error"], results[0]["retryable"]) == ("disk_full", True)
    assert not core.core.service.readiness().ready
    status, body, _ = await core.call("GET", "/v1/read?topic=orders")
    assert (status, frames.values(body)[0]) == (200, b"a")
    status, _, _ = await core.call("DELETE", "/v1/topics/orders")
    assert status == 204, "room can be made by deleting topics"
    files.free = 10**12
    while codes(results) == ["disk_full"]:
        await asyncio.sleep(0.05)
        results = await core.append(frames.encoded("payments", [b"c"], sequence=0))
    assert codes(results) == ["ok"]
