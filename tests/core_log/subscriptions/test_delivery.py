"""Ordered delivery over real sockets: assignments, acknowledgements, what is lost comes again."""

import asyncio
from typing import Any

import pytest

from core_log.subscriptions import members
from core_log.subscriptions.members import MEMBERS_MAX
from core_log.subscriptions.ordered import REJOIN_S

OWNED = {"headers": {"Sidegate-Principal": "billing"}}


@pytest.fixture
async def orders(start_core: Any) -> Any:
    core = await start_core()
    await core.call("POST", "/v1/topics", json={"name": "orders", "partitions": 2})
    wanted = {"name": "mailer", "topic": "orders", "from": "earliest"}
    status, made, _ = await core.call("POST", "/v1/subscriptions", json=wanted, **OWNED)
    assert status == 201, made
    return core


async def state(core: Any, name: str = "mailer") -> Any:
    return (await core.call("GET", f"/v1/subscriptions/{name}", **OWNED))[1]


async def test_a_member_gets_partitions_frames_and_durable_acknowledgements(
    orders: Any, frames: Any, join: Any
) -> None:
    await orders.append(frames.encoded("orders", [b"a", b"b", b"c"]))
    member = await join(orders)
    assert member.opened["type"] == "opened"
    assert member.opened["topic"] == "orders"
    assert member.opened["subscription"]["name"] == "mailer"
    first, second = await member.next(), await member.next()
    assert first == {
        "type": "assign",
        "partition": 0,
        "generation": first["generation"],
        "low": 0,
        "acked": [],
        "attempts": {},
        "end_offset": 3,
    }
    assert second["generation"] > first["generation"]
    assert frames.values(await member.frame()) == [b"a", b"b", b"c"]
    await member.ack((0, 0), (2, 2))
    assert await member.until("acked") == {
        "type": "acked",
        "partition": 0,
        "low": 1,
        "ranges": [[0, 0], [2, 2]],
    }
    shown = await state(orders)
    assert shown["state"] == "active"
    assert shown["members"][0]["member"] == "m"
    assert (shown["members"][0]["partitions"], shown["members"][0]["in_flight"]) == ([0, 1], 1)
    assert shown["cursors"][0] == {
        "partition": 0,
        "low": 1,
        "acked": [[2, 2]],
        "end_offset": 3,
        "lag": 1,
        "in_flight": 1,
        "attempts": {},
    }


async def test_live_messages_follow_the_replayed_ones(orders: Any, frames: Any, join: Any) -> None:
    await orders.append(*(frames.encoded("orders", [b"%d" % n]) for n in range(20)))
    member = await join(orders)
    got: list[bytes] = []

    async def publish() -> None:
        for number in range(20, 60):
            await orders.append(frames.encoded("orders", [b"%d" % number]))

    publishing = asyncio.ensure_future(publish())
    while len(got) < 60:
        got += frames.values(await member.frame())
    await publishing
    assert got == [b"%d" % number for number in range(60)]


async def test_what_a_lost_member_held_comes_again_with_an_attempt_more(
    orders: Any, frames: Any, join: Any
) -> None:
    await orders.append(frames.encoded("orders", [b"a", b"b", b"c"]))
    first = await join(orders, member="one")
    await first.frame()
    await first.ack((1, 1))
    await first.until("acked")
    await first.gone()
    second = await join(orders, member="one")
    assign = await second.until("assign")
    assert (assign["low"], assign["acked"], assign["attempts"]) == (0, [[1, 1]], {"0": 1, "2": 1})
    assert (await state(orders))["redelivered"] == 2
    assert frames.values(await second.frame()) == [b"a", b"b", b"c"]


async def test_another_member_takes_over_after_a_moment(
    orders: Any, frames: Any, join: Any
) -> None:
    one, two = await join(orders, member="one"), await join(orders, member="two")
    assert (await two.until("assign"))["partition"] == 1
    began = asyncio.get_running_loop().time()
    await one.gone()
    assert (await two.until("assign"))["partition"] == 0
    assert asyncio.get_running_loop().time() - began >= REJOIN_S * 0.9


async def test_a_partition_changes_hands_only_when_its_holder_has_let_go(
    orders: Any, frames: Any, join: Any
) -> None:
    await orders.append(frames.encoded("orders", [b"a", b"b"], partition=1))
    one = await join(orders, member="one")
    await one.frame()
    two = await join(orders, member="two")
    revoke = await one.until("revoke")
    assert revoke["partition"] == 1
    assert (await state(orders))["members"][0]["partitions"] == [0, 1]
    await one.ack((0, 0), partition=1)
    await one.until("acked")
    await one.say("released", partition=1, generation=revoke["generation"])
    assign = await two.until("assign")
    assert (assign["partition"], assign["low"], assign["attempts"]) == (1, 1, {})
    await one.ack((1, 1), partition=1)
    fenced = await one.until("fenced")
    assert fenced == {"type": "fenced", "partition": 1, "generation": revoke["generation"]}
    assert (await state(orders))["cursors"][1]["low"] == 1


async def shorten_lease(core: Any, lease_ms: int = 1_000) -> None:
    body = {"lease_ms": lease_ms}
    assert (await core.call("PATCH", "/v1/subscriptions/mailer", json=body, **OWNED))[0] == 200


async def test_a_silent_member_loses_its_lease(orders: Any, frames: Any, join: Any) -> None:
    await shorten_lease(orders)
    await orders.append(frames.encoded("orders", [b"a"]))
    member = await join(orders)
    await member.frame()
    end = await member.until("end")
    assert end["code"] == "lease_expired"
    assert (await state(orders))["cursors"][0]["attempts"] == {"0": 1}


async def test_heartbeats_keep_a_lease(orders: Any, join: Any) -> None:
    # Long enough that a machine which is busy with something else breaks no silence of its own.
    await shorten_lease(orders, 3_000)
    member = await join(orders)
    for _ in range(40):
        await member.say("heartbeat")
        await asyncio.sleep(0.1)
    assert (await state(orders))["state"] == "active"


async def test_the_newer_of_two_with_one_name_wins(orders: Any, frames: Any, join: Any) -> None:
    await orders.append(frames.encoded("orders", [b"a"]))
    older = await join(orders, member="twin")
    await older.frame()
    newer = await join(orders, member="twin")
    assert (await older.until("end"))["code"] == "member_replaced"
    assert (await newer.until("assign"))["attempts"] == {"0": 1}
    assert len((await state(orders))["members"]) == 1


async def test_what_is_nacked_comes_again_on_its_own(orders: Any, frames: Any, join: Any) -> None:
    await orders.append(frames.encoded("orders", [b"a", b"b", b"c"]))
    member = await join(orders)
    await member.frame()
    token = member.tokens[0]
    await member.say("nack", partition=0, generation=token, offsets=[1], delay_ms=20)
    assert await member.until("redeliver") == {
        "type": "redeliver",
        "partition": 0,
        "generation": token,
        "first_offset": 0,
        "count": 3,
        "offsets": [1],
        "attempts": {"1": 1},
    }
    again = await member.next()
    assert frames.values(again) == [b"a", b"b", b"c"], "directly behind it"


async def test_a_members_own_attempts_are_kept(orders: Any, frames: Any, join: Any) -> None:
    await orders.append(frames.encoded("orders", [b"a"]))
    member = await join(orders)
    await member.frame()
    tries = [{"number": 4, "at_us": 7, "status": 500, "error": "the app answered 500"}]
    about = {"partition": 0, "generation": member.tokens[0]}
    await member.say("attempts", **about, attempts={"0": 3})
    await member.say("attempts", **about, attempts={"0": 4}, history={"0": tries})
    await member.say("released", partition=0, generation=member.tokens[0])
    await member.say("released", partition=1, generation=member.tokens[1])
    await member.socket.close()
    other = await join(orders, member="other")
    assign = await other.until("assign")
    assert (assign["attempts"], assign["history"]) == ({"0": 4}, {"0": tries})
    assert "history" not in await other.until("assign"), "nothing failed in the other partition"


async def test_a_seek_gives_a_new_generation_from_the_new_place(
    orders: Any, frames: Any, join: Any
) -> None:
    await orders.append(frames.encoded("orders", [b"a"]), frames.encoded("orders", [b"b"]))
    member = await join(orders)
    await member.frame()
    await member.frame()
    old = member.tokens[0]
    await member.ack((0, 1))
    await member.until("acked")
    sought = {"to": {"offsets": {"0": 1}}}
    status, shown, _ = await orders.call(
        "POST", "/v1/subscriptions/mailer/seek", json=sought, **OWNED
    )
    assert (status, shown["cursors"][0]["low"]) == (200, 1)
    assert (await member.until("revoke"))["generation"] == old
    assert (await member.until("assign"))["low"] == 1
    assert frames.values(await member.frame()) == [b"b"]
    await member.say("ack", partition=0, generation=old, ranges=[[0, 0]])
    assert (await member.until("fenced"))["generation"] == old


async def test_a_paused_subscription_gives_nothing_out_and_takes_acknowledgements(
    orders: Any, frames: Any, join: Any
) -> None:
    await orders.append(frames.encoded("orders", [b"a"]))
    member = await join(orders)
    await member.frame()
    await orders.call("POST", "/v1/subscriptions/mailer/pause", **OWNED)
    await member.until("paused")
    await orders.append(frames.encoded("orders", [b"b"]))
    await member.ack((0, 0))
    await member.until("acked")
    assert (await state(orders))["state"] == "paused"
    late = await join(orders, member="late")
    assert (await late.next()) == {"type": "paused"}
    await late.socket.close()
    await orders.call("POST", "/v1/subscriptions/mailer/resume", **OWNED)
    assert await member.next() != b"b"
    assert frames.values(await member.frame()) == [b"b"]


async def test_members_hear_of_new_settings_and_are_ended_by_a_new_mode(
    orders: Any, join: Any
) -> None:
    member = await join(orders)
    path = "/v1/subscriptions/mailer"
    await orders.call("PATCH", path, json={"settings": {"filter": "true"}}, **OWNED)
    changed = await member.until("changed")
    assert changed["subscription"]["settings"] == {"filter": "true"}
    await orders.call("PATCH", path, json={"mode": "fcfs"}, **OWNED)
    assert (await member.until("end"))["code"] == "subscription_changed"
    again = await join(orders)
    assert again.opened["subscription"]["mode"] == "fcfs"


async def test_a_member_that_never_acknowledges_gets_no_more_than_it_may_hold(
    orders: Any, frames: Any, join: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(members, "IN_FLIGHT_MAX", 4)
    for number in range(10):
        await orders.append(frames.encoded("orders", [b"%060000d" % number] * 2))
    member = await join(orders)
    got = {frames.offset(first): first for first in [await member.frame()]}
    await member.say("nack", partition=0, generation=member.tokens[0], offsets=[0], delay_ms=0)
    while not isinstance(said := await member.next(), dict) or said["type"] != "redeliver":
        got |= {frames.offset(said): said} if isinstance(said, bytes) else {}
    assert frames.offset(await member.frame()) == 0, "what was given back comes all the same"
    held = (await state(orders))["members"][0]["in_flight"]
    assert 4 <= held < 12, "one read more at most"
    while len(got) < 10:
        await member.ack((0, 2 * len(got) - 1))
        frame = await member.frame()
        assert frames.offset(frame) == 2 * len(got)
        got[frames.offset(frame)] = frame
    assert frames.values(b"".join(got.values())) == [b"%060000d" % (n // 2) for n in range(20)]


async def test_members_are_limited(orders: Any, join: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert MEMBERS_MAX == 1_000
    monkeypatch.setattr("core_log.subscriptions.delivery.MEMBERS_MAX", 1)
    await join(orders, member="one")
    second = await join(orders, member="two")
    assert second.opened["code"] == "too_many_members"
    again = await join(orders, member="one")
    assert again.opened["type"] == "opened", "whoever replaces itself is no further member"


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ({"type": "ack", "partition": 0, "generation": 0, "ranges": [[0, 99]]}, "bad_message"),
        ({"type": "ack", "partition": 0, "ranges": [[0, 0]]}, "bad_message"),
        ({"type": "open", "topic": "orders"}, "bad_message"),
        ({"type": "planet"}, "bad_message"),
    ],
)
async def test_a_member_that_talks_nonsense_is_ended(
    orders: Any, frames: Any, join: Any, message: dict[str, Any], code: str
) -> None:
    await orders.append(frames.encoded("orders", [b"a"]))
    member = await join(orders)
    await member.frame()
    if "generation" in message:
        message = {**message, "generation": member.tokens[0]}
    await member.socket.send_json(message)
    assert (await member.until("end"))["code"] == code
