"""Delivery through the whole mesh while its services are killed: nothing is missed.

Readers without a name get each message once, in order. Members of a durable subscription get each
at least once, in the order of its key, and what comes again says so.
"""

import asyncio
import json
import random
import signal
from collections import Counter, defaultdict
from typing import Any

import aiohttp
import pytest

LINES = {"Accept": "application/x-ndjson"}
SETTLE_S_MAX = 60.0
COME_BACK_S = 0.05


class Publisher:
    """Publishes numbers with keys until it is stopped, each with an id of its own."""

    def __init__(self, mesh: Any, topic: str, keys: int = 1) -> None:
        self._mesh, self._topic, self._keys = mesh, topic, keys
        self.sent = 0
        self._task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        while True:
            await asyncio.to_thread(self._publish, self.sent)
            self.sent += 1

    def _publish(self, number: int) -> None:
        document = {
            "topic": self._topic, "message": number, "id": str(number),
            "key": str(number % self._keys),
        }  # fmt: skip
        while True:
            try:
                status, answer, _ = self._mesh.request("POST", "/publish", document)
            except OSError:
                continue
            if status in (200, 202):
                return
            assert status in (429, 503, 504), answer

    async def reach(self, count: int) -> None:
        while self.sent < count:
            assert not self._task.done(), self._task.result()
            await asyncio.sleep(0.01)

    async def stop(self) -> int:
        """How many were published, the one that is under way included."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        await asyncio.to_thread(self._publish, self.sent)
        return self.sent + 1


async def read_lines(url: str, topic: str, numbers: list[int]) -> None:
    """A reader without a name, of everything; it asks again only while it is told to."""
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(None)) as session:
        while True:
            query = f"{url}/subscribe/{topic}?from=earliest"
            async with session.get(query, headers=LINES) as got:
                if got.status == 503:
                    await asyncio.sleep(COME_BACK_S)
                    continue
                assert got.status == 200
                while line := await got.content.readline():
                    numbers.append(json.loads(line)["message"])
                return


class Member:
    """A worker on a WebSocket that processes, acknowledges, and sometimes dies in the middle."""

    def __init__(
        self, url: str, topic: str, subscription: str, chance: random.Random, mortal: float
    ) -> None:
        self._url = f"{url}/subscribe/{topic}"
        self._query = {
            "subscription": subscription, "from": "earliest", "ack": "manual",
            "max_in_flight": "20",
        }  # fmt: skip
        self._chance, self._mortal = chance, mortal
        self.processed: list[dict[str, Any]] = []
        self.deaths = 0
        self.holds = False
        """Takes messages and settles none."""
        self.held: list[int] = []

    async def run(self) -> None:
        while True:
            try:
                async with (
                    aiohttp.ClientSession() as session,
                    session.ws_connect(self._url, params=self._query) as socket,
                ):
                    await self._work(socket)
            except (aiohttp.ClientError, OSError, ValueError):
                await asyncio.sleep(COME_BACK_S)

    async def _work(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        async for message in socket:
            said = json.loads(message.data)
            if "topic" not in said:
                continue
            if self.holds:
                self.held.append(said["message"])
                continue
            self.processed.append(said)
            if self._chance.random() < self._mortal:
                self.deaths += 1
                socket._response.connection.transport.abort()
                return
            settle = {"type": "ack", "partition": said["partition"], "offset": said["offset"]}
            await socket.send_json(settle)


async def until(what: Any) -> None:
    async with asyncio.timeout(SETTLE_S_MAX):
        while not what():  # noqa: ASYNC110 - the state of a reader
            await asyncio.sleep(0.01)


async def test_readers_without_a_name_get_each_message_once_while_services_are_killed(start_mesh):
    mesh = start_mesh("--ports", "free")
    mesh.wait_for("ready")
    mesh.publish("orders", 0)
    early: list[int] = []
    late: list[int] = []
    publisher = Publisher(mesh, "orders")
    publisher.sent = 1
    reading = [asyncio.create_task(read_lines(mesh.url, "orders", early))]
    for service in ("gatekeeper", "core"):
        await publisher.reach(publisher.sent + 30)
        await asyncio.to_thread(mesh.kill, service)
    # Who comes now reads history while new messages arrive.
    reading.append(asyncio.create_task(read_lines(mesh.url, "orders", late)))
    await publisher.reach(publisher.sent + 30)
    count = await publisher.stop()
    await until(lambda: len(early) >= count and len(late) >= count)
    assert early == late == list(range(count))
    for task in reading:
        task.cancel()
    await asyncio.gather(*reading, return_exceptions=True)


@pytest.mark.parametrize("mode", ["ordered", "fcfs"])
async def test_members_that_die_at_random_leave_no_message_behind(mesh, topic, mode):
    await check_members(mesh, topic, mode, [])


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("mode", ["ordered", "fcfs"])
async def test_members_leave_nothing_behind_when_services_are_killed_too(start_mesh, mode):
    mesh = start_mesh("--ports", "free")
    mesh.wait_for("ready")
    await check_members(mesh, "orders", mode, ["gatekeeper", "core", "sidecar"] * 5)


async def check_members(mesh: Any, topic: str, mode: str, killed: list[str]) -> None:
    chance = random.Random(6)
    assert mesh.request("POST", "/topics", {"name": topic, "partitions": 3})[0] == 201
    name = f"{topic}-workers"
    wanted = {"name": name, "topic": topic, "from": "earliest", "mode": mode}
    assert mesh.request("POST", "/subscriptions", wanted)[0] == 201
    publisher = Publisher(mesh, topic, keys=7)
    members = [Member(mesh.url, topic, name, chance, 0.05) for _ in range(3)]
    working = [asyncio.create_task(member.run()) for member in members]
    for service in killed:
        await publisher.reach(publisher.sent + 25)
        await asyncio.to_thread(mesh.kill, service)
    await publisher.reach(publisher.sent + 100)
    count = await publisher.stop()

    def seen() -> set[int]:
        return {each["message"] for member in members for each in member.processed}

    await until(lambda: len(seen()) >= count)

    def lag() -> int:
        _, state, _ = mesh.request("GET", f"/subscriptions/{name}")
        return sum(cursor["lag"] for cursor in state["cursors"])

    async with asyncio.timeout(SETTLE_S_MAX):
        while await asyncio.to_thread(lag):  # noqa: ASYNC110 - the log's state
            await asyncio.sleep(0.1)
    for task in working:
        task.cancel()
    await asyncio.gather(*working, return_exceptions=True)
    assert seen() == set(range(count))
    deliveries = Counter(each["message"] for member in members for each in member.processed)
    again = sum(deliveries.values()) - count
    shown = sum("attempt" in each for member in members for each in member.processed)
    deaths = sum(member.deaths for member in members) + len(killed) * len(members)
    assert again <= deaths * 25, "what comes again is bounded by what was in flight"
    assert shown > 0
    if mode == "ordered":
        for member in members:
            check_order(member.processed)


@pytest.mark.parametrize("mode", ["ordered", "fcfs"])
async def test_members_on_two_sidecars_share_and_one_takes_over_from_a_killed_one(
    mesh, replica_of, topic, mode
):
    assert mesh.request("POST", "/topics", {"name": topic, "partitions": 4})[0] == 201
    wanted = {"name": topic, "topic": topic, "from": "earliest", "mode": mode}
    assert mesh.request("POST", "/subscriptions", wanted)[0] == 201
    replica = replica_of(mesh)
    chance = random.Random(7)
    stays, goes = (Member(url, topic, topic, chance, 0.0) for url in (mesh.url, replica.url))
    working = [asyncio.create_task(member.run()) for member in (stays, goes)]

    async def described() -> dict[str, Any]:
        state: dict[str, Any] = (
            await asyncio.to_thread(mesh.request, "GET", f"/subscriptions/{topic}")
        )[1]
        return state

    async def eventually(seen: Any) -> None:
        async with asyncio.timeout(SETTLE_S_MAX):
            while not seen(await described()):  # noqa: ASYNC110 - the log's state
                await asyncio.sleep(0.05)

    async def publish(numbers: range) -> None:
        rows = [{"message": number, "key": str(number)} for number in numbers]
        path = f"/publish/{topic}/batch"
        assert (await asyncio.to_thread(mesh.request, "POST", path, rows))[0] == 200

    def shared(state: dict[str, Any]) -> bool:
        partitions = sorted(len(member["partitions"]) for member in state["members"])
        return partitions == [2, 2] if mode == "ordered" else len(partitions) == 2

    await eventually(shared)
    await publish(range(40))
    await eventually(lambda state: state["lag"] == 0)
    both = Counter(each["message"] for member in (stays, goes) for each in member.processed)
    assert both == dict.fromkeys(range(40), 1)
    if mode == "ordered":
        theirs = [{each["partition"] for each in member.processed} for member in (stays, goes)]
        assert sorted(theirs[0] | theirs[1]) == [0, 1, 2, 3]
        assert not theirs[0] & theirs[1]

    goes.holds = True
    count = 40
    async with asyncio.timeout(SETTLE_S_MAX):
        while not goes.held:
            await publish(range(count, count + 20))
            count += 20
    await asyncio.to_thread(replica.kill)
    await eventually(lambda state: state["lag"] == 0)
    for task in working:
        task.cancel()
    await asyncio.gather(*working, return_exceptions=True)
    both = Counter(each["message"] for member in (stays, goes) for each in member.processed)
    assert both == dict.fromkeys(range(count), 1)
    again = {each["message"] for each in stays.processed if each.get("attempt", 1) > 1}
    assert set(goes.held) <= again


def check_order(processed: list[dict[str, Any]]) -> None:
    """Of each key, a message that comes for the first time comes after all before it."""
    highest: dict[str, int] = defaultdict(lambda: -1)
    for each in processed:
        if "attempt" not in each and each["message"] < highest[each["key"]]:
            pytest.fail(f"{each['message']} came after {highest[each['key']]}")
        highest[each["key"]] = max(highest[each["key"]], each["message"])


@pytest.mark.long
async def test_a_restart_of_the_sidecar_gives_nothing_twice_that_was_handed_over(start_mesh):
    mesh = start_mesh("--ports", "free")
    mesh.wait_for("ready")
    for number in range(20):
        mesh.publish("orders", number)
    query = "subscription=mailer&from=earliest"
    url = f"{mesh.url}/subscribe/orders?{query}"
    numbers: list[int] = []

    async def take(count: int) -> None:
        async with aiohttp.ClientSession() as session, session.get(url, headers=LINES) as got:
            assert got.status == 200
            while len(numbers) < count:
                numbers.append(json.loads(await got.content.readline())["message"])
            await asyncio.to_thread(mesh.kill, "sidecar", signal.SIGTERM)

    await take(20)
    for number in range(20, 25):
        mesh.publish("orders", number)
    await take(25)
    assert numbers == list(range(25))
