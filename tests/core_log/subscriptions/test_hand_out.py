"""fcfs over real sockets: each stored batch to one free member, and again when that one fails."""

import asyncio
from typing import Any

import pytest

OWNED = {"headers": {"Sidegate-Principal": "billing"}}


@pytest.fixture
async def jobs(start_core: Any) -> Any:
    core = await start_core()
    await core.call("POST", "/v1/topics", json={"name": "jobs", "delivery": "fcfs"})
    body = {"name": "mailer", "topic": "jobs", "from": "earliest"}
    status, made, _ = await core.call("POST", "/v1/subscriptions", json=body, **OWNED)
    assert (status, made["mode"]) == (201, "fcfs")
    return core


async def state(core: Any) -> Any:
    return (await core.call("GET", "/v1/subscriptions/mailer", **OWNED))[1]


async def test_a_lease_stands_directly_before_its_frame(jobs: Any, frames: Any, join: Any) -> None:
    member = await join(jobs)
    await jobs.append(frames.encoded("jobs", [b"a", b"b"]))
    lease = await member.next()
    assert lease == {
        "type": "lease",
        "partition": 0,
        "lease": lease["lease"],
        "first_offset": 0,
        "count": 2,
        "acked": [],
        "attempts": {},
    }
    assert frames.values(await member.next()) == [b"a", b"b"]
    await member.ack((0, 1), mode="fcfs")
    assert await member.until("acked") == {
        "type": "acked",
        "partition": 0,
        "low": 2,
        "ranges": [[0, 1]],
    }


async def test_members_share_the_work_and_each_batch_goes_to_one(
    jobs: Any, frames: Any, join: Any
) -> None:
    workers = [await join(jobs, member=f"w{n}") for n in range(3)]
    for number in range(30):
        await jobs.append(frames.encoded("jobs", [b"%d" % number]))
    got: list[list[bytes]] = [[], [], []]

    async def work(number: int) -> None:
        while len(got[number]) < 10:  # Whoever holds least is next.
            got[number] += frames.values(await workers[number].frame())

    await asyncio.gather(*map(work, range(3)))
    assert sorted(int(value) for each in got for value in each) == list(range(30))


async def test_what_a_lost_member_held_goes_to_another_at_once(
    jobs: Any, frames: Any, join: Any
) -> None:
    await jobs.append(frames.encoded("jobs", [b"a", b"b", b"c"]))
    one = await join(jobs, member="one")
    await one.frame()
    await one.ack((1, 1), mode="fcfs")
    await one.until("acked")
    two = await join(jobs, member="two")
    await one.gone()
    lease = await two.until("lease")
    assert (lease["acked"], lease["attempts"]) == ([[1, 1]], {"0": 1, "2": 1})
    assert frames.values(await two.next()) == [b"a", b"b", b"c"]
    assert (await state(jobs))["redelivered"] == 2


async def test_what_is_nacked_comes_again_alone(jobs: Any, frames: Any, join: Any) -> None:
    await jobs.append(frames.encoded("jobs", [b"a", b"b", b"c"]))
    member = await join(jobs)
    await member.frame()
    first = member.tokens[0]
    tries = [{"number": 1, "at_us": 7, "status": None, "error": "no answer came in time"}]
    told = {str(offset): tries for offset in (0, 1)}
    totals = {"0": 1, "1": 1}
    await member.say("attempts", partition=0, lease=first, attempts=totals, history=told)
    await member.say("nack", partition=0, lease=first, offsets=[1], delay_ms=10)
    lease = await member.until("lease")
    assert (lease["acked"], lease["attempts"]) == ([[0, 0], [2, 2]], {"1": 2})
    assert lease["history"] == {"1": tries}
    assert len(frames.values(await member.next())) == 3
    await member.say("ack", partition=0, lease=first, ranges=[[0, 2]])
    acked = await member.until("acked")
    assert acked["ranges"] == [[0, 0], [2, 2]], "the one between is the other lease's"
    await member.ack((1, 1), mode="fcfs")
    assert (await member.until("acked"))["low"] == 3


async def test_a_member_without_credit_gets_nothing_until_it_grants_some(
    jobs: Any, frames: Any, join: Any
) -> None:
    await jobs.append(frames.encoded("jobs", [b"a"]), frames.encoded("jobs", [b"b"]))
    poor = await join(jobs, member="poor", credit_bytes=0)
    await jobs.call("POST", "/v1/subscriptions/mailer/pause", **OWNED)
    assert await poor.next() == {"type": "paused"}
    await poor.say("credit", bytes=1)
    await jobs.call("POST", "/v1/subscriptions/mailer/resume", **OWNED)
    assert await poor.next() == {"type": "resumed"}
    assert frames.values(await poor.frame()) == [b"a"]
    await poor.say("credit", bytes=10_000)
    assert frames.values(await poor.frame()) == [b"b"]


async def test_a_seek_revokes_leases(jobs: Any, frames: Any, join: Any) -> None:
    await jobs.append(frames.encoded("jobs", [b"a"]))
    member = await join(jobs)
    await member.frame()
    old = member.tokens[0]
    await jobs.call("POST", "/v1/subscriptions/mailer/seek", json={"to": "earliest"}, **OWNED)
    assert await member.until("revoke") == {"type": "revoke", "partition": 0, "lease": old}
    assert frames.values(await member.frame()) == [b"a"]
    await member.say("ack", partition=0, lease=old, ranges=[[0, 0]])
    assert (await member.until("fenced"))["lease"] == old


async def test_a_long_backlog_is_handed_out_as_credit_allows(
    jobs: Any, frames: Any, join: Any
) -> None:
    for _ in range(10):
        await jobs.append(*(frames.encoded("jobs", [bytes(20_000)]) for _ in range(10)))
    member = await join(jobs, credit_bytes=50_000)
    for number in range(100):
        frame = await member.frame()
        assert frames.offset(frame) == number
        await member.ack((number, number), mode="fcfs")
        await member.say("credit", bytes=len(frame))
    while (await member.until("acked"))["low"] < 100:
        pass
    assert (await state(jobs))["cursors"][0]["lag"] == 0


async def test_partitions_that_are_added_are_handed_out_too(
    jobs: Any, frames: Any, join: Any
) -> None:
    member = await join(jobs)
    await jobs.call("PATCH", "/v1/topics/jobs", json={"partitions": 2})
    await jobs.append(frames.encoded("jobs", [b"x"], partition=1))
    assert (await member.until("lease"))["partition"] == 1
