"""A member gets what is assigned to it, says what became of it, and survives its connection."""

import asyncio

import pytest

from sidecar.delivery.holdings import Delivery
from sidecar.delivery.member import Changed, MemberSession, Membership, Paused, Revoked
from sidecar.delivery.topic_stream import Gap
from sidecar.delivery.tries import Try
from sidecar.errors import UnknownSubscription, UplinkDown
from sidecar.uplink.backoff import Backoff

CREATE = {"topic": "orders", "from": "earliest"}


@pytest.fixture
async def sidecar(mesh):
    return await mesh.sidecar()


@pytest.fixture
async def join(mesh, open_gateway):
    opened = await open_gateway()
    sessions = []

    async def join_(create=CREATE, *, member="m1", credit=64 * 1024, name="mailer"):
        membership = Membership(name, member, create=create)
        backoff = Backoff(0.01, 0.01)
        session = MemberSession(opened.gateway, opened.credentials, membership, credit, backoff)
        sessions.append(session)
        await session.open()
        session.fake = mesh.gatekeeper.subscriptions[name]
        return session

    join_.credentials = opened.credentials
    yield join_
    for session in sessions:
        await session.close()


async def publish(sidecar, *numbers, **fields):
    for number in numbers:
        await sidecar.publish({"topic": "orders", "message": number, **fields})


async def next_of(events, *kinds):
    """The next event that is one of the kinds."""
    async for event in events:
        if isinstance(event, kinds):
            return event
    raise AssertionError("the session ended")


async def until(what):
    while not what():  # noqa: ASYNC110 - the fake's own state
        await asyncio.sleep(0.005)


def acked(session):
    return [said["ranges"] for said in session.fake.said if said["type"] == "ack"]


def kinds(session):
    return [said["type"] for said in session.fake.said]


async def test_what_is_acknowledged_moves_the_cursor(sidecar, join):
    await publish(sidecar, 0, 1)
    session = await join()
    assert session.topic == "orders"
    assert session.definition["name"] == "mailer"
    events = session.events()
    for offset in (0, 1):
        delivery = await next_of(events, Delivery)
        assert list(delivery.offsets) == [offset]
        assert session.holder(0, offset) == delivery.hold
        assert session.ack(delivery.hold, [(offset, offset)]) == 1
        assert session.ack(delivery.hold, [(offset, offset)]) == 0
        assert session.holder(0, offset) is None
    await session.flush()
    assert session.fake.low == {0: 2}


async def test_it_is_created_once_and_never_again_by_itself(mesh, sidecar, join):
    session = await join()
    events = session.events()
    await mesh.gatekeeper.cut_streams()
    await publish(sidecar, 0)
    await next_of(events, Delivery)
    assert [opening["create"] for opening in session.fake.openings] == [CREATE, None]
    assert {opening["member"] for opening in session.fake.openings} == {"m1"}


async def test_after_a_loss_only_what_was_not_acknowledged_comes_again_with_its_count(
    mesh, sidecar, join
):
    await publish(sidecar, 0, 1)
    session = await join()
    events = session.events()
    first = await next_of(events, Delivery)
    second = await next_of(events, Delivery)
    session.ack(first.hold, [(0, 0)])
    await session.flush()
    await mesh.gatekeeper.cut_streams()
    revoked = await next_of(events, Revoked)
    assert revoked == Revoked(second.hold, may_finish=False)
    assert not session.is_current(second.hold)
    again = await next_of(events, Delivery)
    assert list(again.offsets) == [1]
    assert again.attempts == {1: 1}
    assert again.hold != second.hold
    assert session.redelivered == 1


async def test_acknowledgements_that_the_loss_swallowed_are_said_again(mesh, sidecar, join):
    await publish(sidecar, 0)
    session = await join()
    session.fake.silent_acks = True
    events = session.events()
    delivery = await next_of(events, Delivery)
    session.ack(delivery.hold, [(0, 0)])
    await until(lambda: acked(session))
    session.fake.silent_acks = False
    await mesh.gatekeeper.cut_streams()
    # Its hold had nothing in hand any more, so that nobody is told of the loss.
    await until(lambda: session.fake.low == {0: 1})
    await publish(sidecar, 1)
    assert list((await next_of(events, Delivery)).offsets) == [1]


async def test_what_is_given_back_comes_again_after_what_was_acknowledged_before_it(sidecar, join):
    await publish(sidecar, 0, 1)
    session = await join()
    events = session.events()
    first, second = await next_of(events, Delivery), await next_of(events, Delivery)
    session.ack(first.hold, [(0, 0)])
    assert session.nack(second.hold, [1, 5], delay_ms=250) == 1
    again = await next_of(events, Delivery)
    assert list(again.offsets) == [1]
    assert again.attempts == {1: 1}
    said = [each for each in session.fake.said if each["type"] in ("ack", "nack")]
    assert [each["type"] for each in said] == ["ack", "nack"]
    assert said[1] == {
        "type": "nack", "partition": 0, "generation": 1, "offsets": [1], "delay_ms": 250,
    }  # fmt: skip


async def test_failed_tries_are_told_so_that_the_next_member_knows_them(mesh, sidecar, join):
    await publish(sidecar, 0)
    session = await join()
    events = session.events()
    delivery = await next_of(events, Delivery)
    assert delivery.history == {}
    failed = Try(7, 1_000_000, 500, "the app answered 500")
    session.report(delivery.hold, 9, 1, [failed])
    session.report(delivery.hold, 0, 6)
    session.report(delivery.hold, 0, 7, [failed])
    await until(lambda: session.fake.attempts == {(0, 0): 7})
    told = [each for each in session.fake.said if each["type"] == "attempts"]
    assert [sorted(each) for each in told] == [
        ["attempts", "generation", "partition", "type"],
        ["attempts", "generation", "history", "partition", "type"],
    ]
    await mesh.gatekeeper.cut_streams()
    again = await next_of(events, Delivery)
    assert (again.attempts, again.history) == ({0: 8}, {0: (failed,)})


async def test_a_revoked_partition_is_released_when_what_is_in_hand_is_settled(sidecar, join):
    await publish(sidecar, 0)
    session = await join()
    events = session.events()
    delivery = await next_of(events, Delivery)
    await session.fake.say(type="revoke", partition=0, generation=1)
    assert await next_of(events, Revoked) == Revoked(delivery.hold, may_finish=True)
    assert not session.is_current(delivery.hold)
    session.ack(delivery.hold, [(0, 0)])
    await until(lambda: "released" in kinds(session))
    assert acked(session) == [[[0, 0]]]
    assert session.fake.said[-1] == {"type": "released", "partition": 0, "generation": 1}


async def test_a_revoked_partition_with_nothing_in_hand_is_released_at_once(sidecar, join):
    session = await join()
    events = session.events()
    await session.fake.say(type="revoke", partition=0, generation=1)
    revoked = await next_of(events, Revoked)
    assert not revoked.may_finish
    await until(lambda: "released" in kinds(session))


async def test_what_waits_behind_a_revoke_is_never_delivered(sidecar, join):
    await publish(sidecar, 0, 1, 2)
    session = await join()
    events = session.events()
    first = await next_of(events, Delivery)
    await until(lambda: len(session._ready) == 2)
    await session.fake.say(type="revoke", partition=0, generation=1)
    await until(lambda: not session.is_current(first.hold))
    assert isinstance(await next_of(events, Delivery, Revoked), Revoked)
    session.ack(first.hold, [(0, 2)])
    await until(lambda: "released" in kinds(session))
    assert acked(session) == [[[0, 0]]]


async def test_a_fenced_acknowledgement_takes_the_hold_away(sidecar, join):
    await publish(sidecar, 0)
    session = await join()
    events = session.events()
    delivery = await next_of(events, Delivery)
    session.fake.generation = 9
    session.ack(delivery.hold, [(0, 0)])
    assert await next_of(events, Revoked) == Revoked(delivery.hold, may_finish=False)
    await session.flush()
    assert session.fake.low == {0: 0}


async def test_leases_are_acknowledged_one_by_one(sidecar, join):
    await publish(sidecar, 0, 1)
    session = await join({**CREATE, "mode": "fcfs"})
    events = session.events()
    first, second = await next_of(events, Delivery), await next_of(events, Delivery)
    assert (first.hold.lease, second.hold.lease) == (1, 2)
    session.ack(second.hold, [(1, 1)])
    await session.flush()
    assert session.fake.acked == {0: {1}}
    assert session.holder(0, 0) == first.hold


async def test_credit_comes_back_as_deliveries_are_consumed(sidecar, join):
    session = await join(credit=300)
    events = session.events()
    await publish(sidecar, *range(10))
    for _ in range(10):
        delivery = await next_of(events, Delivery)
        session.ack(delivery.hold, [(0, 99)])
    await session.flush()
    assert session.fake.low == {0: 10}


async def test_a_sign_of_life_comes_three_times_a_lease(mesh, sidecar, join):
    session = await join({**CREATE, "lease_ms": 60})
    await until(lambda: sum(said["type"] == "heartbeat" for said in session.fake.said) >= 3)
    assert session.lease_s == pytest.approx(0.06)


async def test_a_fresh_token_is_handed_over_with_a_sign_of_life(mesh, sidecar, join):
    session = await join({**CREATE, "lease_ms": 60})
    old = join.credentials.current.token
    join.credentials.refused(old)
    fresh = (await join.credentials.wait()).token
    await until(lambda: {"type": "token", "token": fresh} in session.fake.said)


async def test_a_deleted_subscription_ends_the_session_for_good(sidecar, join):
    session = await join()
    events = session.events()
    await session.fake.say(type="end", code="subscription_deleted", detail="it is gone")
    for _ in range(2):
        with pytest.raises(UnknownSubscription, match="it is gone"):
            await next_of(session.events(), Delivery)
    await events.aclose()


async def test_a_missing_subscription_is_told_at_once(join):
    with pytest.raises(UnknownSubscription, match="no mailer"):
        await join(None)


async def test_where_no_gatekeeper_is_there_the_first_open_says_so(mesh, join):
    await mesh.gatekeeper.listening.stop()
    with pytest.raises(UplinkDown):
        await join()


async def test_pauses_and_gaps_are_passed_on(sidecar, join):
    session = await join()
    events = session.events()
    await session.fake.say(type="paused")
    assert await next_of(events, Paused) == Paused(paused=True)
    assert session.paused
    await session.fake.say(type="resumed")
    assert await next_of(events, Paused) == Paused(paused=False)
    await session.fake.say(
        type="gap", partition=0, first_offset=0, next_offset=5, code="expired", detail="old"
    )
    assert await next_of(events, Gap) == Gap(0, 0, 5, "expired", "old")


async def test_new_settings_are_told(sidecar, join):
    session = await join()
    events = session.events()
    await session.fake.say(type="changed", subscription={"name": "mailer", "settings": {"a": 1}})
    assert await next_of(events, Changed) == Changed()
    assert session.definition["settings"] == {"a": 1}


async def test_a_message_that_makes_no_sense_costs_the_connection_only(sidecar, join):
    session = await join()
    events = session.events()
    await session.fake.say(type="assign", partition="x")
    await publish(sidecar, 0)
    await next_of(events, Delivery)
    assert len(session.fake.openings) == 2


async def test_leaving_says_first_what_was_acknowledged(sidecar, join):
    await publish(sidecar, 0)
    session = await join()
    delivery = await next_of(session.events(), Delivery)
    session.ack(delivery.hold, [(0, 0)])
    await session.close()
    assert session.fake.low == {0: 1}
    assert not session.connected
