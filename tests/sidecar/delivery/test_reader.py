"""Pages of history: whole, in order, within their bounds, and patient with a broken link."""

import asyncio
import json

import pytest
from aiohttp.web import Response, json_response

from log_format.frame import decode_frame
from sidecar.delivery.reader import PAGE_BYTES_MAX, Reader, refusal_of
from sidecar.errors import (
    BadQuery,
    Damaged,
    Denied,
    GatekeeperRefused,
    OverQuota,
    UnknownMessage,
    UnknownTopic,
    UplinkDown,
)
from sidecar.uplink.answer_parser import Answer
from sidecar.uplink.backoff import Backoff
from sidecar.uplink.uplink import Uplink


@pytest.fixture
async def link(mesh, open_gateway):
    """A gateway and the uplink that watches it."""
    opened = await open_gateway()
    backoff = Backoff(first_s=0.01, max_s=0.05)
    uplink = Uplink(
        opened.gateway, request_bytes_max=1 << 20, requests_in_flight_max=1, backoff=backoff
    )
    await uplink.start()
    assert await uplink.wait_connected(10.0)
    yield opened.gateway, uplink
    await uplink.stop()


@pytest.fixture
def reader(link):
    return Reader(*link)


@pytest.fixture
def reading_in_vain(link, reader):
    """A read that has begun and has found the link broken."""

    async def begin():
        down = asyncio.Event()
        link[1].on_state = lambda state: None if state.connected else down.set()
        reading = asyncio.create_task(reader.page("orders", 0, 0, 1))
        await down.wait()
        assert not reading.done()
        return reading

    return begin


@pytest.fixture
async def sidecar(mesh):
    return await mesh.sidecar()


async def fill(sidecar, count, **fields):
    await asyncio.gather(
        *(sidecar.publish({"topic": "orders", "message": n, **fields}) for n in range(count))
    )


def offsets(page):
    return [rendered.offset for rendered in page.messages]


async def test_a_page_holds_its_messages_in_order_and_says_where_to_go_on(sidecar, reader):
    await fill(sidecar, 25)
    page = await reader.page("orders", 0, 3, 10)
    assert offsets(page) == list(range(3, 13))
    assert page.next_offset == 13


async def test_pages_put_together_are_the_whole_topic(sidecar, reader):
    await fill(sidecar, 25)
    found, offset = [], 0
    while (page := await reader.page("orders", 0, offset, 7)).messages:
        found += offsets(page)
        offset = page.next_offset
    assert found == list(range(25))
    assert offset == 25


async def test_past_the_end_a_page_is_empty_and_stays_where_it_is(sidecar, reader):
    await fill(sidecar, 2)
    page = await reader.page("orders", 0, 99, 10)
    assert (page.messages, page.next_offset) == ([], 99)


async def test_a_page_ends_behind_the_message_that_passes_its_bytes(sidecar, reader):
    for _ in range(10):
        await sidecar.publish({"topic": "orders", "message": "x" * 1_000_000})
    page = await reader.page("orders", 0, 0, 100)
    size = sum(len(rendered.envelope) for rendered in page.messages)
    assert PAGE_BYTES_MAX <= size < PAGE_BYTES_MAX + 1_100_000
    assert page.next_offset == len(page.messages) < 10


async def test_one_message_is_found_by_its_offset_and_no_other_is_given_for_it(sidecar, reader):
    await fill(sidecar, 3)
    assert json.loads(await reader.one("orders", 0, 1))["offset"] == 1
    with pytest.raises(UnknownMessage, match="no message 3"):
        await reader.one("orders", 0, 3)


async def test_an_unknown_topic_is_told_as_such(reader):
    with pytest.raises(UnknownTopic):
        await reader.page("nowhere", 0, 0, 1)


async def test_a_damaged_answer_is_not_passed_on(mesh, sidecar, reader):
    await fill(sidecar, 1)
    ((base, whole),) = mesh.log.frames["orders", 0]
    damaged = bytearray(whole)
    damaged[len(decode_frame(whole).envelope.raw)] ^= 1
    mesh.log.frames["orders", 0] = [(base, bytes(damaged))]
    with pytest.raises(GatekeeperRefused, match="damaged"):
        await reader.page("orders", 0, 0, 1)


async def test_a_read_waits_for_a_gatekeeper_that_restarts(mesh, sidecar, reading_in_vain):
    await fill(sidecar, 1)
    await mesh.gatekeeper.listening.stop()
    reading = await reading_in_vain()
    await mesh.gatekeeper.listening.start()
    assert offsets(await reading) == [0]


async def test_a_read_waits_for_a_core_that_restarts(mesh, sidecar, reading_in_vain):
    await fill(sidecar, 1)
    mesh.gatekeeper.core_down = True
    reading = await reading_in_vain()
    mesh.gatekeeper.core_down = False
    assert offsets(await reading) == [0]


async def test_a_gatekeeper_that_answers_and_refuses_is_asked_again_with_growing_waits(
    mesh, sidecar, link
):
    waits = []

    class Noted(Backoff):
        def delay_s(self, failures, chance):
            waits.append(failures)
            return 0.0

    await fill(sidecar, 1)
    mesh.gatekeeper.read_failures = [
        json_response({"code": "audit_unavailable"}, status=503) for _ in range(3)
    ]
    reader = Reader(*link, backoff=Noted())
    assert offsets(await reader.page("orders", 0, 0, 1)) == [0]
    assert waits == [1, 2, 3]


async def test_what_can_be_read_before_damage_is_read_and_the_damage_says_where_to_go_on(
    mesh, sidecar, reader
):
    await fill(sidecar, 1)
    extent = {"topic": "orders", "partition": 0, "first_offset": 1, "next_offset": 5}
    lost = {"code": "damaged", "detail": "offsets 1 to 4 cannot be read", **extent}
    mesh.gatekeeper.read_failures = [
        Response(body=mesh.log.frames["orders", 0][0][1]),
        json_response(lost, status=410),
        json_response(lost, status=410),
    ]
    page = await reader.page("orders", 0, 0, 1000)
    assert (offsets(page), page.next_offset) == ([0], 1)
    with pytest.raises(Damaged, match="offsets 1 to 4") as caught:
        await reader.page("orders", 0, 1, 1000)
    assert caught.value.members == {"first_offset": 1, "next_offset": 5}


def answer(status, headers=None, **members):
    return Answer(status, headers or {}, json.dumps(members).encode())


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (403, "denied", Denied),
        (404, "unknown_topic", UnknownTopic),
        (404, "unknown_partition", UnknownTopic),
        (404, "no_such_route", GatekeeperRefused),
        (410, "damaged", Damaged),
        (429, "over_quota", OverQuota),
        (400, "bad_request", BadQuery),
        (413, "too_large", BadQuery),
        (401, "unauthenticated", UplinkDown),
        (500, "internal", UplinkDown),
        (503, "unavailable", UplinkDown),
        (409, "conflict", GatekeeperRefused),
        (302, "moved", GatekeeperRefused),
    ],
)
def test_each_refusal_of_a_gatekeeper_is_told_in_the_sidecars_own_words(status, code, kind):
    error = refusal_of(answer(status, code=code, detail="the reason"))
    assert type(error) is kind
    assert "the reason" in str(error)


def test_a_denial_keeps_its_decision_and_nothing_else_of_the_document():
    error = refusal_of(answer(403, decision_id="d", reason="r", detail="no", internal="secret"))
    assert error.members == {"decision_id": "d", "reason": "r"}


def test_a_quota_says_when_to_come_back():
    assert refusal_of(answer(429, {"retry-after": "7"})).headers == {"Retry-After": "7"}
    assert refusal_of(answer(429)).headers == {"Retry-After": "1"}


def test_an_answer_that_is_no_document_still_has_a_meaning():
    error = refusal_of(Answer(502, {}, b"<html>"))
    assert type(error) is UplinkDown
    assert "502" in str(error)


@pytest.mark.parametrize(("told", "next_offset"), [("40", 40), ("0", 3), ("x", 3), ("", 3)])
async def test_where_everything_has_expired_the_page_goes_on_behind_it(
    mesh, reader, told, next_offset
):
    headers = {"Sidegate-Next-Offset": told}
    mesh.gatekeeper.read_failures.append(Response(body=b"", headers=headers))
    page = await reader.page("orders", 0, 3, 10)
    assert (page.messages, page.next_offset) == ([], next_offset)
