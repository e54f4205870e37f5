"""The uplink against a real gatekeeper of bytes: what it does with each kind of answer."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from sidecar.publish.batch import Ack, Committed, Entry
from sidecar.publish.flight import BATCHES_IN_FLIGHT_MAX, FLIGHTS_MAX
from sidecar.publish.lane import Lane, LaneLimits
from sidecar.publish.message import Message
from sidecar.publish.producer import ProducerState
from sidecar.publish.refusals import refusal_error
from sidecar.publish.results import Verdict
from sidecar.uplink.backoff import Backoff
from sidecar.uplink.uplink import FRAMES_MAX, Uplink

LIMITS = LaneLimits(
    ring_entries_max=5000, ring_bytes_max=1 << 24, batch_bytes_max=1 << 20, linger_s=0.0
)


async def until(what: Callable[[], bool]) -> None:
    """Wait for a state of the other side; the test's timeout is the limit."""
    while not what():  # noqa: ASYNC110 - the state belongs to the uplink or the gatekeeper
        await asyncio.sleep(0.002)


class Side:
    """An uplink, its lanes, and what it reported."""

    def __init__(self, gateway: Any, uplink: Uplink, producers: ProducerState) -> None:
        self.gateway = gateway
        self.uplink = uplink
        self.producers = producers
        self.states: list[bool] = []
        self.lost: list[Lane] = []
        uplink.on_settled = self._settled
        uplink.on_state = lambda state: self.states.append(state.connected)
        uplink.on_lost = self.lost.append

    def _settled(self, lane: Lane, settled: Any) -> None:
        for each in settled:
            if each.result.verdict is Verdict.COMMITTED:
                each.batch.answer_committed(each.result.base_offset, each.result.durability)
            else:
                each.batch.answer_all(refusal_error(each.batch, each.result))
        self.uplink.wake(lane)

    def lane(self, topic: str = "t", limits: LaneLimits = LIMITS) -> Lane:
        return Lane(topic, 0, self.producers, limits)

    def put(self, lane: Lane, *values: bytes) -> list["asyncio.Future[Any]"]:
        """Offer messages to a lane and wake the uplink."""
        loop = asyncio.get_running_loop()
        futures = []
        for value in values:
            future: asyncio.Future[Any] = loop.create_future()
            entry = Entry(Message(lane.topic, value, 1), Ack.CORE, future.set_result)
            assert lane.offer(entry, 0.0)
            futures.append(future)
        self.uplink.wake(lane)
        return futures

    async def until_connected(self) -> None:
        assert await self.uplink.wait_connected(20)


class OddGateway:
    """Passes everything on, and fails once in a way that no gateway should, after the sending."""

    def __init__(self, gateway: Any) -> None:
        self._gateway = gateway
        self._failures = [ValueError("odd")]
        self.url, self.ask = gateway.url, gateway.ask
        self.on_lost: Callable[[], None] = lambda: None

    async def append(self, frames: Any, trace: Any = None) -> Any:
        answer = await self._gateway.append(frames, trace)
        if self._failures:
            raise self._failures.pop()
        return answer


@pytest.fixture
async def make_side(mesh: Any, open_gateway: Any) -> AsyncIterator[Callable[..., Any]]:
    made: list[Uplink] = []
    numbers = itertools.count()

    async def make(*, started: bool = True, wrapped: Any = None, **settings: Any) -> Side:
        opened = await open_gateway()
        given = {"request_bytes_max": 1 << 22, "requests_in_flight_max": 4} | settings
        gateway = opened.gateway if wrapped is None else wrapped(opened.gateway)
        uplink = Uplink(gateway, backoff=Backoff(first_s=0.005, max_s=0.01), **given)
        made.append(uplink)
        path = mesh.folder / f"producer-{next(numbers)}.json"
        side = Side(opened.gateway, uplink, ProducerState(path))
        if started:
            await uplink.start()
            await side.until_connected()
        return side

    yield make
    for uplink in made:
        await uplink.stop()


async def test_messages_of_one_turn_share_a_request_and_learn_their_offsets(
    mesh, make_side
) -> None:
    side = await make_side()
    one, two = side.lane("one"), side.lane("two")
    futures = side.put(one, b"1", b"2", b"3") + side.put(two, b"4")
    outcomes = await asyncio.gather(*futures)
    assert [(each.topic, each.offset) for each in outcomes] == [
        ("one", 0),
        ("one", 1),
        ("one", 2),
        ("two", 0),
    ]
    assert mesh.gatekeeper.appends == [2], "one request with a batch for each partition"


async def test_nothing_is_sent_before_the_link_is_there_and_all_of_it_then(mesh, make_side) -> None:
    await mesh.gatekeeper.listening.stop()
    side = await make_side(started=False)
    lane = side.lane()
    (future,) = side.put(lane, b"1")
    await side.uplink.start()
    assert not await side.uplink.wait_connected(0.03)
    assert not side.uplink.connected
    assert side.uplink.state.reason
    await mesh.gatekeeper.listening.start()
    assert isinstance(await future, Committed)
    assert side.states[-1] is True


@pytest.mark.parametrize("failure", ["drop", "lose", 500, 503, "unavailable", "storage_failed"])
async def test_a_lost_or_doubtful_answer_is_asked_for_again_and_nothing_is_doubled(
    mesh, make_side, failure
) -> None:
    side = await make_side()
    lane = side.lane()
    mesh.gatekeeper.failures.append(failure)
    (future,) = side.put(lane, b"1")
    assert (await future).offset == 0
    (following,) = side.put(lane, b"2")
    assert (await following).offset == 1
    assert mesh.log.values("t") == [b"1", b"2"]
    assert False in side.states, "the link counted as down in between"
    assert lane in side.lost


@pytest.mark.parametrize(
    ("failure", "code"),
    [
        (403, "denied"),
        (400, "bad_frame"),
        (413, "too_large"),
        ("denied", "denied"),
        ("unknown_topic", "unknown_topic"),
    ],
)
async def test_a_refusal_is_told_once_and_the_link_stays_up(mesh, make_side, failure, code) -> None:
    side = await make_side()
    lane = side.lane()
    seen: list[str] = []
    before = side.uplink.on_settled

    def settled(lane: Lane, batches: Any) -> None:
        seen.extend(each.result.code for each in batches)
        before(lane, batches)

    side.uplink.on_settled = settled
    mesh.gatekeeper.failures.append(failure)
    (future,) = side.put(lane, b"1")
    assert isinstance(await future, Exception)
    assert seen == [code]
    assert side.uplink.connected
    (following,) = side.put(lane, b"2")
    assert isinstance(await following, Committed)
    assert mesh.log.values("t") == [b"2"]


async def test_a_request_that_is_refused_whole_is_taken_apart_to_find_the_bad_frame(
    mesh, make_side
) -> None:
    side = await make_side()
    lanes = [side.lane(name) for name in ("a", "b", "c")]
    # The whole is refused, then the first lane alone; the others are sound.
    mesh.gatekeeper.failures += [400, 400]
    futures = [side.put(lane, b"1")[0] for lane in lanes]
    outcomes = await asyncio.gather(*futures)
    assert isinstance(outcomes[0], Exception)
    assert all(isinstance(each, Committed) for each in outcomes[1:])
    assert [mesh.log.values(name) for name in ("a", "b", "c")] == [[], [b"1"], [b"1"]]


async def test_a_gatekeeper_that_answers_nonsense_leaves_the_batch_in_doubt(
    mesh, make_side
) -> None:
    side = await make_side()
    lane = side.lane()
    answered = [0]
    append = mesh.log.append

    def odd(frame: Any) -> Any:
        result = append(frame)
        answered[0] += 1
        return "nonsense" if answered[0] == 1 else result

    mesh.log.append = odd
    (future,) = side.put(lane, b"1")
    assert (await future).offset == 0
    assert mesh.log.values("t") == [b"1"]
    assert False in side.states


async def test_a_lane_that_may_not_send_yet_is_in_no_request_until_it_is_woken(
    mesh, make_side
) -> None:
    side = await make_side()
    lane, other = side.lane("t"), side.lane("other")
    mesh.gatekeeper.failures.append("denied")
    (refused,) = side.put(lane, b"1")
    assert isinstance(await refused, Exception)
    # The refused batch's record has no mark on disk yet; a new epoch may not begin before.
    lane.unsynced += 1
    mesh.gatekeeper.hang = asyncio.Event()
    (waiting,) = side.put(lane, b"2")
    (passed,) = side.put(other, b"3")
    await until(lambda: len(mesh.gatekeeper.appends) >= 2)
    lane.done_synced(1)
    side.uplink.wake(lane)
    await until(lambda: len(mesh.gatekeeper.appends) >= 3)
    mesh.gatekeeper.hang.set()
    assert [each.offset for each in await asyncio.gather(waiting, passed)] == [0, 0]
    assert mesh.gatekeeper.appends == [1, 1, 1]
    assert (mesh.log.values("t"), mesh.log.values("other")) == ([b"2"], [b"3"])


async def test_one_request_carries_no_more_frames_than_the_wire_allows(mesh, make_side) -> None:
    side = await make_side(requests_in_flight_max=1)
    lanes = [side.lane(f"t{number}") for number in range(FRAMES_MAX + 3)]
    futures = [side.put(lane, b"1")[0] for lane in lanes]
    outcomes = await asyncio.gather(*futures)
    assert all(isinstance(each, Committed) for each in outcomes)
    assert max(mesh.gatekeeper.appends) <= FRAMES_MAX
    assert sum(mesh.gatekeeper.appends) == FRAMES_MAX + 3


async def test_no_more_requests_are_under_way_than_allowed_and_small_partitions_have_one(
    mesh, make_side
) -> None:
    side = await make_side(requests_in_flight_max=2)
    mesh.gatekeeper.hang = asyncio.Event()
    lanes = [side.lane(name) for name in "abc"]
    futures = []
    for lane in lanes:
        futures += side.put(lane, b"1")
        # A turn of the loop for each, so that they do not share a request.
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    futures += side.put(lanes[0], b"2")
    await until(lambda: len(mesh.gatekeeper.appends) >= 2)
    # A question to the gatekeeper takes the turns of the loop in which a third would come.
    assert (await side.gateway.ask("GET", "/v1/status")).status == 200
    assert len(mesh.gatekeeper.appends) == 2
    mesh.gatekeeper.hang.set()
    outcomes = await asyncio.gather(*futures)
    assert [each.offset for each in outcomes] == [0, 0, 0, 1]


BUSY = LaneLimits(ring_entries_max=5000, ring_bytes_max=1 << 24, batch_bytes_max=64, linger_s=0.0)
"""Every message is a batch."""


async def test_a_busy_partition_has_several_requests_under_way_and_keeps_its_order(
    mesh, make_side
) -> None:
    side = await make_side(request_bytes_max=300)
    mesh.gatekeeper.hang = asyncio.Event()
    lane = side.lane(limits=BUSY)
    values = [b"%040d" % number for number in range(40)]
    futures = side.put(lane, *values)
    await until(lambda: len(mesh.gatekeeper.appends) >= FLIGHTS_MAX)
    assert (await side.gateway.ask("GET", "/v1/status")).status == 200
    assert len(mesh.gatekeeper.appends) == FLIGHTS_MAX
    assert sum(mesh.gatekeeper.appends) <= BATCHES_IN_FLIGHT_MAX
    mesh.gatekeeper.hang.set()
    outcomes = await asyncio.gather(*futures)
    assert [each.offset for each in outcomes] == list(range(40))
    assert mesh.log.values("t") == values


@pytest.mark.parametrize("failure", ["drop", "lose", 503, "unavailable", "overloaded"])
@pytest.mark.parametrize("spared", [0, 1, 2])
async def test_when_one_of_several_requests_fails_nothing_is_lost_doubled_or_reordered(
    mesh, make_side, failure, spared
) -> None:
    side = await make_side(request_bytes_max=300)
    lane = side.lane(limits=BUSY)
    values = [b"%040d" % number for number in range(30)]
    mesh.gatekeeper.failures += [None] * spared + [failure]
    outcomes = await asyncio.gather(*side.put(lane, *values))
    stored = mesh.log.values("t")
    assert stored == sorted(set(stored))
    # What a full core hands back is told to its app; everything else is in the log.
    told = [each for each in outcomes if isinstance(each, Committed)]
    assert len(told) == len(stored)
    assert failure == "overloaded" or stored == values
    assert [stored[each.offset] for each in told] == stored


async def test_an_error_that_nobody_expected_is_logged_and_the_batch_is_sent_again(
    mesh, make_side, caplog
) -> None:
    side = await make_side(wrapped=OddGateway)
    lane = side.lane()
    (future,) = side.put(lane, b"1")
    assert (await future).offset == 0
    assert mesh.log.values("t") == [b"1"]
    assert "append failed unexpectedly" in caplog.text
    assert False in side.states
    assert lane.empty


async def test_a_listener_that_fails_for_one_lane_leaves_the_others_their_answers(
    mesh, make_side, caplog
) -> None:
    side = await make_side()
    one, two = side.lane("one"), side.lane("two")
    before = side.uplink.on_settled

    def settled(lane: Lane, batches: Any) -> None:
        if lane is one and batches:
            raise ValueError("odd")
        before(lane, batches)

    side.uplink.on_settled = settled
    futures = side.put(one, b"1") + side.put(two, b"2")
    assert (await futures[1]).offset == 0
    assert "could not be answered for" in caplog.text
    assert one.empty
    assert side.uplink.connected


async def test_an_idle_link_that_breaks_is_noticed_without_a_message(mesh, make_side) -> None:
    side = await make_side()
    await mesh.gatekeeper.listening.stop()
    await until(lambda: not side.uplink.connected)
    assert side.states[-1] is False
    await mesh.gatekeeper.listening.start()
    await side.until_connected()
    assert side.uplink.connected


async def test_a_drain_waits_for_what_is_under_way(mesh, make_side) -> None:
    side = await make_side()
    mesh.gatekeeper.hang = asyncio.Event()
    (future,) = side.put(side.lane(), b"1")
    await until(lambda: bool(mesh.gatekeeper.appends))
    draining = asyncio.create_task(side.uplink.drain())
    await asyncio.sleep(0.01)
    assert not draining.done()
    mesh.gatekeeper.hang.set()
    await draining
    assert future.done()


async def test_a_drain_does_not_wait_for_a_link_that_is_down(mesh, make_side) -> None:
    side = await make_side(started=False)
    side.put(side.lane(), b"1")
    async with asyncio.timeout(60):
        await side.uplink.drain()
