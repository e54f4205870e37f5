"""What happens to subscriptions: topics that go or grow, retention, restarts, crashes."""

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

import orjson
import pytest
from aiohttp import ClientSession, UnixConnector

from core_log.config import LogConfig
from log_format.envelope import decode_envelope

OWNED = {"headers": {"Sidegate-Principal": "billing"}}
MAILER = {"name": "mailer", "topic": "orders", "from": "earliest"}


async def subscribed(core: Any, partitions: int = 1, **more: Any) -> Any:
    await core.call("POST", "/v1/topics", json={"name": "orders", "partitions": partitions})
    status, made, _ = await core.call("POST", "/v1/subscriptions", json={**MAILER, **more}, **OWNED)
    assert status in (200, 201), made
    return core


async def state(core: Any) -> Any:
    return (await core.call("GET", "/v1/subscriptions/mailer", **OWNED))[1]


async def test_a_topic_takes_its_subscriptions_with_it(core: Any, frames: Any, join: Any) -> None:
    await subscribed(core)
    member = await join(core)
    await core.call("DELETE", "/v1/topics/orders")
    assert (await member.until("end"))["code"] == "topic_deleted"
    status, problem, _ = await core.call("GET", "/v1/subscriptions/mailer", **OWNED)
    assert (status, problem["code"]) == (404, "unknown_subscription")
    assert len(core.core.storage.cursors) == 0
    await subscribed(core)
    await core.append(frames.encoded("orders", [b"new"], producer_id=9))
    again = await join(core)
    assert frames.values(await again.frame()) == [b"new"]


async def test_partitions_that_are_added_begin_with_their_first_message(
    core: Any, frames: Any, join: Any
) -> None:
    await subscribed(core, **{"from": "latest"})
    member = await join(core)
    await core.call("PATCH", "/v1/topics/orders", json={"partitions": 3})
    await core.append(frames.encoded("orders", [b"x"], partition=2))
    assigned = [(await member.until("assign"))["partition"] for _ in range(3)]
    assert assigned == [0, 1, 2]
    assert frames.values(await member.frame()) == [b"x"]
    assert len((await state(core))["cursors"]) == 3


async def test_a_subscription_that_is_deleted_ends_its_streams(core: Any, join: Any) -> None:
    await subscribed(core)
    member = await join(core)
    status, _, _ = await core.call("DELETE", "/v1/subscriptions/mailer", **OWNED)
    assert status == 204
    assert (await member.until("end"))["code"] == "subscription_deleted"
    gone = await join(core)
    assert gone.opened["code"] == "unknown_subscription"


async def test_what_retention_removes_is_counted_and_told(
    start_core: Any, frames: Any, join: Any
) -> None:
    core = await start_core(log=LogConfig(disk_reserve_bytes=0, segment_bytes=4096))
    await subscribed(core)
    for number in range(20):
        await core.append(frames.encoded("orders", [b"%0500d" % number] * 2))
    await core.call("PATCH", "/v1/topics/orders", json={"retention": {"bytes": 3000}})
    await core.core.cleaning.clean()
    start = (await core.call("GET", "/v1/topics/orders"))[1]["offsets"][0]["start_offset"]
    assert start > 0
    member = await join(core)
    gap = await member.until("gap")
    assert (gap["first_offset"], gap["next_offset"], gap["code"]) == (0, start, "expired")
    assert frames.offset(await member.frame()) == start
    shown = await state(core)
    assert (shown["expired"], shown["cursors"][0]["low"]) == (start, start)


async def test_what_retention_removes_is_counted_and_told_where_batches_are_handed_out(
    start_core: Any, frames: Any, join: Any
) -> None:
    core = await start_core(log=LogConfig(disk_reserve_bytes=0, segment_bytes=4096))
    await subscribed(core, mode="fcfs")
    for number in range(20):
        await core.append(frames.encoded("orders", [b"%0500d" % number] * 2))
    await core.call("PATCH", "/v1/topics/orders", json={"retention": {"bytes": 3000}})
    await core.core.cleaning.clean()
    member = await join(core)
    gap = await member.until("gap")
    lease = await member.until("lease")
    assert (gap["code"], gap["next_offset"]) == ("expired", lease["first_offset"])
    assert (await state(core))["expired"] == lease["first_offset"]


async def test_a_memory_topic_is_refused(core: Any, join: Any) -> None:
    await core.call("POST", "/v1/topics", json={"name": "live", "storage": "memory"})
    body = {"name": "x", "topic": "live"}
    status, problem, _ = await core.call("POST", "/v1/subscriptions", json=body, **OWNED)
    assert (status, problem["code"]) == (409, "not_durable")
    member = await join(core, "x", create={"topic": "live"})
    assert member.opened["code"] == "not_durable"


async def test_a_member_may_create_what_it_opens(core: Any, join: Any) -> None:
    await core.call("POST", "/v1/topics", json={"name": "orders"})
    create = {"topic": "orders", "from": "earliest", "settings": {"a": 1}}
    first = await join(core, "fresh", create=create)
    assert first.opened["subscription"]["settings"] == {"a": 1}
    second = await join(core, "fresh", "n", create={"topic": "orders"})
    assert second.opened["type"] == "opened", "only the topic is compared"
    await core.call("POST", "/v1/topics", json={"name": "other"})
    third = await join(core, "fresh", "o", create={"topic": "other"})
    assert third.opened["code"] == "subscription_exists"
    unknown = await join(core, "new", create={"topic": "nowhere"})
    assert unknown.opened["code"] == "unknown_topic"
    mismatch = await join(core, "fresh", "p", topic="other")
    assert mismatch.opened["code"] == "topic_mismatch"


async def test_a_restart_loses_no_acknowledgement_no_attempt_and_no_message(
    start_core: Any, frames: Any, join: Any
) -> None:
    core = await subscribed(await start_core())
    await core.append(frames.encoded("orders", [b"a", b"b", b"c", b"d"]))
    member = await join(core)
    await member.frame()
    old = member.tokens[0]
    await member.ack((0, 0), (2, 2))
    await member.until("acked")
    await member.say("attempts", partition=0, generation=old, attempts={"1": 2})
    await core.call("GET", "/v1/subscriptions/mailer", **OWNED)
    stopping = asyncio.ensure_future(core.stop())
    assert (await member.until("end"))["code"] == "draining"
    await stopping
    again = await start_core()
    member = await join(again)
    assign = await member.until("assign")
    assert (assign["low"], assign["acked"], assign["attempts"]) == (1, [[2, 2]], {"1": 2})
    assert assign["generation"] > old
    assert frames.values(await member.frame()) == [b"a", b"b", b"c", b"d"]
    await member.say("ack", partition=0, generation=old, ranges=[[1, 1]])
    assert (await member.until("fenced"))["generation"] == old


CORE = """
import asyncio, os, sys
from pathlib import Path
from core_log.config import CoreConfig, LogConfig
from core_log.service import make_service
from hosting.lifecycle import run_service
from hosting.units import Address
config = CoreConfig(
    listen=Address(path=Path(sys.argv[1])), health=Address("127.0.0.1", 0), data=Path(sys.argv[2]),
    admit_uids=(os.getuid(),), log=LogConfig(disk_reserve_bytes=0), auto_create_topics=True,
)
sys.exit(run_service(lambda: make_service(config)))
"""


class KilledCore:
    """A core in a process of its own, which can be killed."""

    def __init__(self, folder: Path, data: Path) -> None:
        self.path, self.data = folder / "core", data

    async def start(self) -> None:
        self.path.unlink(missing_ok=True)
        self.process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            CORE,
            str(self.path),
            str(self.data),
            stderr=asyncio.subprocess.PIPE,
        )
        self.session = ClientSession(connector=UnixConnector(str(self.path)))
        async with asyncio.timeout(60):
            while True:
                try:
                    async with self.session.get("http://core/v1/status") as answer:
                        assert answer.status == 200
                        return
                except OSError:
                    assert self.process.returncode is None
                    await asyncio.sleep(0.02)

    async def kill(self) -> None:
        await self.session.close()
        os.kill(self.process.pid, signal.SIGKILL)
        await self.process.wait()


async def test_an_acknowledgement_that_was_confirmed_survives_a_kill(
    tmp_path: Path, socket_folder: Path, frames: Any
) -> None:
    core = KilledCore(socket_folder, tmp_path / "data")
    low = 0
    for _ in range(3):
        await core.start()
        body = b"".join(frames.encoded("orders", [b"x"] * 10) for _ in range(5))
        async with core.session.post("http://core/v1/append", data=body) as answer:
            assert all("base_offset" in each for each in (await answer.json())["results"])
        socket = await core.session.ws_connect("http://core/v1/stream")
        create = {"topic": "orders", "from": "earliest"}
        open_ = {"type": "open", "subscription": "s", "owner": "o", "member": "m"}
        await socket.send_json({**open_, "credit_bytes": 10**6, "create": create})
        generation, confirmed = 0, False
        while not confirmed:
            async with asyncio.timeout(60):
                message = await socket.receive()
            if isinstance(message.data, bytes):
                first = frames.offset(message.data)
                ack = {"type": "ack", "partition": 0, "generation": generation}
                await socket.send_json({**ack, "ranges": [[first, first + 3]]})
                continue
            said = orjson.loads(message.data)
            if said["type"] == "assign":
                assert said["low"] == low, "what was confirmed before the kill is there"
                generation = said["generation"]
            elif said["type"] == "acked":
                low = said["low"]
                confirmed = True
        await core.kill()
    assert low > 0


@pytest.mark.parametrize("mode", ["ordered", "fcfs"])
async def test_members_that_die_at_random_lose_nothing(
    core: Any, frames: Any, join: Any, mode: str
) -> None:
    await subscribed(core, 3, mode=mode)
    total = 120
    done: set[tuple[int, int]] = set()
    order: dict[int, list[int]] = {0: [], 1: [], 2: []}

    async def publish() -> None:
        for number in range(total // 4):
            await core.append(frames.encoded("orders", [b"x"] * 4, partition=number % 3))

    async def work(name: str, dies_after: int) -> None:
        member = await join(core, member=name)
        served = 0
        while len(done) < total and served < dies_after:
            try:
                async with asyncio.timeout(1.5):
                    said = await member.next()
            except TimeoutError:
                await member.say("heartbeat")
                continue
            if isinstance(said, bytes):
                first = frames.offset(said)
                partition = decode_envelope(said).producer.partition
                served += 1
                if served >= dies_after:
                    break
                await member.ack((first, first + 3), partition=partition, mode=mode)
                done.update((partition, first + n) for n in range(4))
                order[partition].append(first)
            elif said["type"] == "revoke":
                await member.say(
                    "released", partition=said["partition"], generation=said["generation"]
                )
        await member.gone()

    publishing = asyncio.ensure_future(publish())
    await asyncio.gather(*(work(f"dies{n}", 2 + n) for n in range(3)))
    await publishing
    async with asyncio.timeout(90):
        await asyncio.gather(work("one", 10**6), work("two", 10**6))
        assert len(done) == total
        # What they acknowledged last is on its way, or being written.
        while any(each["lag"] for each in (await state(core))["cursors"]):  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    if mode == "ordered":
        for each in order.values():
            firsts = list(dict.fromkeys(each))
            assert firsts == sorted(firsts), "first deliveries keep the order"
