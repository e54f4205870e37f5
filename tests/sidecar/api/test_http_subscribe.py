"""Subscribers get a topic in the form they ask for, alone or as members of a durable name."""

import asyncio
import json

import pytest

from sidecar.api.http_subscribe import wants_lines

LINES = {"Accept": "application/x-ndjson"}


@pytest.fixture
async def sidecar(mesh):
    return await mesh.sidecar()


async def publish(sidecar, *numbers, topic="orders", **fields):
    for number in numbers:
        status, _ = await sidecar.publish({"topic": topic, "message": number, **fields})
        assert status == 200


def subscribe(sidecar, topic="orders", headers=None, **query):
    return sidecar.client.get(
        f"{sidecar.base}/subscribe/{topic}", params=query, headers=headers or {}
    )


async def lines(response, count):
    return [json.loads(await response.content.readline()) for _ in range(count)]


async def events(response, count):
    found = []
    while len(found) < count:
        line = await response.content.readline()
        assert line, "the stream ended"
        if line.startswith(b"data: "):
            found.append(json.loads(line[6:]))
    return found


def messages(envelopes):
    return [each["message"] for each in envelopes]


async def until(what):
    while not what():  # noqa: ASYNC110 - the fake's own state
        await asyncio.sleep(0.005)


@pytest.mark.parametrize(
    ("accept", "lines_wanted"),
    [
        ("application/x-ndjson", True),
        ("application/jsonl;q=0.9", True),
        ("text/event-stream, application/x-ndjson", False),
        ("*/*", False),
        ("", False),
    ],
)
def test_events_are_what_everybody_gets_who_asks_for_nothing_else(accept, lines_wanted):
    assert wants_lines(accept) == lines_wanted


async def test_lines_history_then_live(sidecar):
    await publish(sidecar, 0, 1)
    async with subscribe(sidecar, headers=LINES, **{"from": "earliest"}) as response:
        assert response.status == 200
        assert response.headers["Content-Type"] == "application/x-ndjson"
        assert messages(await lines(response, 2)) == [0, 1]
        await publish(sidecar, 2)
        (envelope,) = await lines(response, 1)
        assert (envelope["topic"], envelope["offset"], envelope["message"]) == ("orders", 2, 2)


@pytest.mark.parametrize("headers", [LINES, None], ids=["lines", "events"])
async def test_a_filter_lets_through_what_matches(sidecar, headers):
    await publish(sidecar, *range(6))
    read = lines if headers else events
    query = {"from": "earliest", "filter": "message % 2 == 1"}
    async with subscribe(sidecar, headers=headers, **query) as response:
        assert messages(await read(response, 3)) == [1, 3, 5]
    _, status = await sidecar.get("/status")
    assert status["filtered"] == 3


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"filter": "message >"}, "filter"),
        ({"filter": "1 + 1"}, "filter"),
        ({"mode": "ordered"}, "mode"),
        ({"owner": "x"}, "owner"),
        ({"ack": "manual"}, "ack"),
        ({"max_in_flight": "5"}, "max_in_flight"),
        ({"subscription": "m", "max_in_flight": "5"}, "max_in_flight"),
        ({"subscription": "m", "partition": "0"}, "partition"),
        ({"echo": "true"}, "echo"),
    ],
)
async def test_what_cannot_be_is_refused_with_its_field(sidecar, query, field):
    async with subscribe(sidecar, **query) as response:
        assert response.status == 400
        assert (await response.json(content_type=None))["field"] == field


@pytest.mark.parametrize(
    "query",
    [{"subscription": "a b"}, {"subscription": ""}, {"subscription": "m", "mode": "x"},
     {"subscription": "m", "ack": "maybe"}, {"max_in_flight": "0"}, {"echo": "maybe"}],
)  # fmt: skip
async def test_what_no_parameter_may_be_is_refused(sidecar, query):
    async with subscribe(sidecar, **query) as response:
        assert response.status == 400


@pytest.mark.parametrize("headers", [LINES, None], ids=["lines", "events"])
async def test_a_named_subscription_goes_on_where_it_was(mesh, sidecar, headers):
    read = lines if headers else events
    await publish(sidecar, 0, 1)
    query = {"subscription": "mailer", "from": "earliest"}
    async with subscribe(sidecar, headers=headers, **query) as response:
        assert messages(await read(response, 2)) == [0, 1]
        fake = mesh.gatekeeper.subscriptions["mailer"]
        await until(lambda: fake.low == {0: 2})
    await publish(sidecar, 2)
    async with subscribe(sidecar, headers=headers, **query) as response:
        assert messages(await read(response, 1)) == [2]


async def test_by_hand_what_is_not_acknowledged_comes_again_with_its_count(mesh, sidecar):
    await publish(sidecar, 0, 1, 2)
    query = {
        "subscription": "mailer",
        "from": "earliest",
        "ack": "manual",
        "max_in_flight": "2",
    }
    async with subscribe(sidecar, headers=LINES, **query) as response:
        assert messages(await lines(response, 2)) == [0, 1]
        members = sidecar.assembly.members
        assert members.ack(None, "mailer", 0, [(0, 0)]) == 1
        assert messages(await lines(response, 1)) == [2]
        await members.flush(None, "mailer")
    await until(lambda: not mesh.gatekeeper.subscriptions["mailer"].members)
    async with subscribe(sidecar, headers=LINES, **query) as response:
        again = await lines(response, 2)
        assert [(each["message"], each["attempt"]) for each in again] == [(1, 2), (2, 2)]


@pytest.mark.parametrize("headers", [LINES, {}])
async def test_a_member_that_goes_gives_back_what_it_held_at_once(mesh, sidecar, headers):
    """Nothing is written to it meanwhile, by which its absence would be noticed."""
    await publish(sidecar, 0)
    query = {"subscription": "m", "from": "earliest", "ack": "manual"}
    async with subscribe(sidecar, headers=headers, **query) as response:
        fake = mesh.gatekeeper.subscriptions["m"]
        fake.quiet = True
        while b'"message":0' not in await response.content.readline():
            pass
        response.close()
    while (await sidecar.get("/status"))[1]["streams"]:  # noqa: ASYNC110 - the sidecar's state
        await asyncio.sleep(0.005)
    await until(lambda: not fake.members)
    assert len(fake.openings) == 1, "it was not the silence of the gatekeeper that ended it"


async def test_an_app_that_reads_lines_settles_by_requests(mesh, sidecar):
    await publish(sidecar, 0, 1, 2)
    query = {"subscription": "m", "from": "earliest", "ack": "manual", "max_in_flight": "2"}

    async def settle(kind, **document):
        url = f"{sidecar.base}/subscriptions/m/{kind}"
        async with sidecar.client.post(url, json=document) as answer:
            assert answer.status == 200

    async with subscribe(sidecar, headers=LINES, **query) as response:
        assert messages(await lines(response, 2)) == [0, 1]
        await settle("ack", partition=0, offsets=[0])
        assert messages(await lines(response, 1)) == [2]
        await settle("nack", partition=0, offsets=[1])
        (again,) = await lines(response, 1)
        assert (again["message"], again["attempt"]) == (1, 2)


async def test_what_the_filter_holds_back_is_acknowledged(mesh, sidecar):
    await publish(sidecar, *range(4))
    query = {"subscription": "odd", "from": "earliest", "filter": "message % 2 == 1"}
    async with subscribe(sidecar, headers=LINES, **query) as response:
        assert messages(await lines(response, 2)) == [1, 3]
        fake = mesh.gatekeeper.subscriptions["odd"]
        await until(lambda: fake.low == {0: 4})
    assert fake.definition["settings"] == {"filter": "message % 2 == 1"}
    await publish(sidecar, 4, 5)
    query = {"subscription": "odd"}
    async with subscribe(sidecar, headers=LINES, **query) as response:
        assert messages(await lines(response, 1)) == [5]


@pytest.mark.parametrize("changed", [{"filter": "message == 2"}, {"mode": "fcfs"}])
async def test_members_that_want_it_otherwise_are_refused(sidecar, changed):
    query = {"subscription": "mailer", "filter": "message == 1", "mode": "ordered"}
    async with subscribe(sidecar, headers=LINES, **query) as response:
        assert response.status == 200
    async with subscribe(sidecar, headers=LINES, **{**query, **changed}) as response:
        assert response.status == 409
        document = await response.json(content_type=None)
        assert document["code"] == "subscription_conflict"
        assert document["field"] in changed


async def test_a_new_name_is_made_with_what_the_request_says(mesh, sidecar):
    query = {"subscription": "m", "owner": "billing", "mode": "fcfs", "from": "offset:3"}
    async with subscribe(sidecar, headers=LINES, **query):
        (opening,) = mesh.gatekeeper.subscriptions["m"].openings
    assert opening["owner"] == "billing"
    assert opening["create"] == {
        "topic": "orders", "from": {"offsets": {"0": 3}}, "mode": "fcfs",
    }  # fmt: skip


async def test_a_deleted_subscription_ends_the_stream_with_the_reason(mesh, sidecar):
    async with subscribe(sidecar, headers=LINES, subscription="m") as response:
        await mesh.gatekeeper.subscriptions["m"].say(
            type="end", code="subscription_deleted", detail="it is gone"
        )
        (last,) = await lines(response, 1)
        assert (last["code"], last["detail"]) == ("unknown_subscription", "it is gone")
        assert await response.content.read() == b""


async def test_a_topic_that_is_deleted_ends_events_with_a_comment(mesh, sidecar):
    async with subscribe(sidecar) as response:
        await mesh.gatekeeper.say(type="end", code="topic_deleted", detail="gone")
        assert (await response.content.read()).endswith(b": ended: gone\n")


async def test_many_waiting_subscribers_share_one_stream(mesh, sidecar):
    responses = [await subscribe(sidecar) for _ in range(20)]
    await until(lambda: len(mesh.gatekeeper._sockets) == 1)
    await publish(sidecar, 7)
    for response in responses:
        assert messages(await events(response, 1)) == [7]
        response.close()


async def test_a_stalled_reader_slows_nobody(sidecar):
    stalled = await subscribe(sidecar)
    body = "x" * 500_000
    async with subscribe(sidecar, headers=LINES) as quick:
        for number in range(30):
            await sidecar.publish({"topic": "orders", "message": body, "key": str(number)})
        assert [each["key"] for each in await lines(quick, 30)] == [str(n) for n in range(30)]
    assert [each["key"] for each in await events(stalled, 30)] == [str(n) for n in range(30)]
    stalled.close()


async def test_at_a_restart_of_the_sidecar_what_was_handed_over_is_not_given_again(mesh, sidecar):
    await publish(sidecar, 0)
    query = {"subscription": "mailer", "from": "earliest"}
    response = await subscribe(sidecar, headers=LINES, **query)
    assert messages(await lines(response, 1)) == [0]
    sidecar.assembly.service.ask_to_stop()
    assert await response.content.read() == b""
    assert mesh.gatekeeper.subscriptions["mailer"].low == {0: 1}
