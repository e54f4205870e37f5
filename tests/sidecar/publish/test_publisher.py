"""What a publish answers: every cell of the table, through the real app."""

import asyncio

import pytest

from sidecar.config import LimitsConfig, SpoolConfig

ACKS = ("auto", "core", "sidecar", "none")
FULL_SPOOL = SpoolConfig(bytes_max=1)


async def post(sidecar, number, ack, **more):
    """Status, the code or durability of the answer, and Retry-After."""
    document = b'{"topic":"%s","message":%d}' % (more.pop("topic", "t").encode(), number)
    async with sidecar.client.post(
        f"{sidecar.base}/publish", data=document, params={"ack": ack, **more}
    ) as response:
        answer = await response.json(content_type=None)
        return (
            response.status,
            answer.get("code") or answer["durability"],
            response.headers.get("Retry-After"),
        )


async def drained(mesh, sidecar, *expected):
    """Wait until nothing is unsettled; then the log holds exactly these, in order."""
    publisher, outbox = sidecar.assembly.publisher, sidecar.assembly.outbox
    await sidecar.until(
        lambda: all(lane.empty for lane in publisher.lanes.values()) and not outbox.records
    )
    assert mesh.log.values("t") == [b"%d" % number for number in expected]


async def go_down(mesh, sidecar):
    await mesh.gatekeeper.listening.stop()
    await sidecar.down()


async def come_back(mesh, sidecar):
    await mesh.gatekeeper.listening.start()
    await sidecar.connected()


async def test_committed_in_time(mesh) -> None:
    sidecar = await mesh.sidecar()
    answers = [await post(sidecar, number, ack) for number, ack in enumerate(ACKS)]
    assert answers == [
        (200, "committed", None),
        (200, "committed", None),
        (202, "spooled", None),
        (202, "none", None),
    ]
    await drained(mesh, sidecar, 0, 1, 2, 3)


async def test_uplink_known_to_be_down_with_room_in_the_spool(mesh) -> None:
    sidecar = await mesh.sidecar()
    await go_down(mesh, sidecar)
    answers = [await post(sidecar, number, ack) for number, ack in enumerate(ACKS)]
    assert answers == [
        (202, "spooled", None),
        (503, "uplink_down", "1"),
        (202, "spooled", None),
        (202, "none", None),
    ]
    await come_back(mesh, sidecar)
    await drained(mesh, sidecar, 0, 2, 3)


@pytest.mark.parametrize(
    ("ack", "expected"),
    [
        ("auto", (202, "spooled")),
        ("core", (504, "in_doubt")),
        ("sidecar", (202, "spooled")),
        ("none", (202, "none")),
    ],
)
async def test_sent_and_no_answer_in_time(mesh, ack, expected) -> None:
    sidecar = await mesh.sidecar()
    mesh.gatekeeper.hang = asyncio.Event()
    assert (await post(sidecar, 1, ack, timeout_ms=40))[:2] == expected
    mesh.gatekeeper.hang.set()
    await drained(mesh, sidecar, 1)


async def test_behind_a_spool_that_is_not_drained(mesh) -> None:
    sidecar = await mesh.sidecar()
    await post(sidecar, 0, "core")
    mesh.gatekeeper.hang = asyncio.Event()
    assert (await post(sidecar, 1, "auto", timeout_ms=40))[:2] == (202, "spooled")
    # Far more patience than the test has: these are answered because they are on disk.
    behind = [await post(sidecar, 2, "auto"), await post(sidecar, 3, "sidecar")]
    behind.append(await post(sidecar, 4, "none"))
    assert [each[:2] for each in behind] == [(202, "spooled"), (202, "spooled"), (202, "none")]
    assert (await post(sidecar, 5, "core", timeout_ms=40))[:2] == (504, "in_doubt")
    waiting = asyncio.create_task(post(sidecar, 6, "core"))
    await asyncio.sleep(0)
    mesh.gatekeeper.hang.set()
    assert (await waiting)[:2] == (200, "committed")
    await drained(mesh, sidecar, 0, 1, 2, 3, 4, 5, 6)


async def test_spool_full(mesh) -> None:
    sidecar = await mesh.sidecar(spool=FULL_SPOOL)
    await go_down(mesh, sidecar)
    answers = [await post(sidecar, number, ack) for number, ack in enumerate(ACKS)]
    assert answers == [
        (503, "spool_full", "1"),
        (503, "uplink_down", "1"),
        (503, "spool_full", "1"),
        (503, "spool_full", "1"),
    ]
    await come_back(mesh, sidecar)
    assert (await post(sidecar, 9, "core"))[0] == 200
    await drained(mesh, sidecar, 9)


@pytest.mark.parametrize("ack", ["auto", "core"])
async def test_no_answer_and_no_room_in_the_spool_is_in_doubt_and_told_so(mesh, ack) -> None:
    sidecar = await mesh.sidecar(spool=FULL_SPOOL)
    mesh.gatekeeper.hang = asyncio.Event()
    assert (await post(sidecar, 1, ack, timeout_ms=40))[:2] == (504, "in_doubt")
    mesh.gatekeeper.hang.set()
    await drained(mesh, sidecar, 1)


async def test_policy_denies(mesh) -> None:
    sidecar = await mesh.sidecar()
    answers = [await post(sidecar, 1, ack, topic="forbidden.x") for ack in ACKS]
    assert [each[:2] for each in answers] == [
        (403, "denied"),
        (403, "denied"),
        (202, "spooled"),
        (202, "none"),
    ]

    await drained(mesh, sidecar)
    rejects = (await sidecar.get("/rejects"))[1]["rejects"]
    assert {(each["code"], each["decision_id"]) for each in rejects} == {("denied", "d-17")}
    assert sum(each["messages"] for each in rejects) == 2
    assert mesh.log.values("forbidden.x") == []


@pytest.mark.parametrize("ack", ["auto", "core"])
async def test_over_quota_is_told_and_never_sent_by_itself(mesh, ack) -> None:
    sidecar = await mesh.sidecar()
    mesh.gatekeeper.failures.append("over_quota")
    assert await post(sidecar, 1, ack) == (429, "over_quota", "1")
    assert (await post(sidecar, 2, "core"))[0] == 200
    await drained(mesh, sidecar, 2)


@pytest.mark.parametrize("ack", ["sidecar", "none"])
async def test_over_quota_is_sent_later_where_the_app_does_not_wait(mesh, ack) -> None:
    sidecar = await mesh.sidecar()
    mesh.gatekeeper.failures += ["over_quota", "over_quota"]
    assert (await post(sidecar, 1, ack))[0] == 202
    await drained(mesh, sidecar, 1)


async def test_waiting_apps_are_answered_when_the_link_breaks_under_their_messages(mesh) -> None:
    sidecar = await mesh.sidecar()
    await post(sidecar, 0, "core")
    mesh.gatekeeper.failures += ["drop"]
    auto, core = await asyncio.gather(post(sidecar, 1, "auto"), post(sidecar, 2, "core"))
    assert auto[0] in (200, 202)
    assert core[:2] in ((200, "committed"), (503, "uplink_down"))
    numbers = [number for number in (1, 2) if number == 1 or core[0] == 200]
    publisher = sidecar.assembly.publisher
    await sidecar.until(lambda: all(lane.empty for lane in publisher.lanes.values()))
    assert sorted(mesh.log.values("t")) == [b"%d" % number for number in (0, *numbers)]


TINY = LimitsConfig(message_bytes_max=100, ring_entries_max=2, ring_bytes_max=1000)


async def fill(mesh, sidecar, ack):
    """One message under way, and a ring with no room left."""
    mesh.gatekeeper.hang = asyncio.Event()
    sent = [asyncio.create_task(post(sidecar, 0, ack))]
    await sidecar.until(lambda: bool(mesh.gatekeeper.appends))
    (lane,) = sidecar.assembly.publisher.lanes.values()
    for number in (1, 2):
        sent.append(asyncio.create_task(post(sidecar, number, ack)))
        await sidecar.until(lambda: len(lane.ring) == number)  # noqa: B023 - awaited at once
    return sent


async def test_a_full_ring_lets_messages_wait_within_their_time_and_keeps_their_order(mesh) -> None:
    sidecar = await mesh.sidecar(limits=TINY)
    sent = await fill(mesh, sidecar, "core")
    assert (await post(sidecar, 8, "core", timeout_ms=40))[:2] == (503, "ring_full")
    late = asyncio.create_task(post(sidecar, 3, "core"))
    waits = sidecar.assembly.publisher._wait_for_room
    await sidecar.until(lambda: any(e.reply for queue in waits.values() for e in queue))
    mesh.gatekeeper.hang.set()
    assert [each[0] for each in await asyncio.gather(*sent, late)] == [200] * 4
    await drained(mesh, sidecar, 0, 1, 2, 3)


async def test_overflow_reject_refuses_at_once(mesh) -> None:
    sidecar = await mesh.sidecar(limits=TINY, overflow="reject")
    sent = await fill(mesh, sidecar, "core")
    assert (await post(sidecar, 8, "core"))[:2] == (503, "ring_full")
    mesh.gatekeeper.hang.set()
    await asyncio.gather(*sent)
    await drained(mesh, sidecar, 0, 1, 2)


async def test_overflow_drop_oldest_drops_only_what_nobody_waits_for_and_counts_it(mesh) -> None:
    sidecar = await mesh.sidecar(limits=TINY, overflow="drop_oldest")
    sent = await fill(mesh, sidecar, "none")
    assert (await post(sidecar, 3, "none"))[:2] == (202, "none")
    mesh.gatekeeper.hang.set()
    await asyncio.gather(*sent)
    await drained(mesh, sidecar, 0, 2, 3)
    assert (await sidecar.get("/status"))[1]["dropped"] == 1
