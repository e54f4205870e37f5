"""An app's own id: published once, however often it is sent, also over restarts."""

import asyncio

import pytest

from sidecar.config import DedupeConfig
from sidecar.publish.dedupe import dedupe_key
from sidecar.publish.dedupe_journal import DedupeJournal, Line, Mark

ONE = {"topic": "t", "message": 1, "id": "a"}


async def test_a_repeat_answers_with_the_first_ones_offset_and_is_not_published(mesh):
    sidecar = await mesh.sidecar()
    first = await sidecar.publish(ONE)
    await sidecar.publish({"topic": "t", "message": 2})
    assert await sidecar.publish(ONE) == first
    assert first[0] == 200
    assert first[1]["id"] == "a"
    assert mesh.log.values("t") == [b"1", b"2"]


async def test_repeats_that_come_while_the_first_is_under_way_share_its_outcome(mesh):
    sidecar = await mesh.sidecar()
    await sidecar.publish({"topic": "t", "message": 0})
    mesh.gatekeeper.hang = asyncio.Event()
    asked = [asyncio.create_task(sidecar.publish(ONE, ack="core")) for _ in range(5)]
    await sidecar.until(lambda: len(mesh.gatekeeper.appends) == 2)
    mesh.gatekeeper.hang.set()
    answers = await asyncio.gather(*asked)
    assert {(status, answer["offset"]) for status, answer in answers} == {(200, 1)}
    assert mesh.log.values("t") == [b"0", b"1"]


async def test_after_a_504_asking_again_with_the_same_id_tells_the_outcome(mesh):
    sidecar = await mesh.sidecar()
    await sidecar.publish({"topic": "t", "message": 0})
    mesh.gatekeeper.hang = asyncio.Event()
    assert (await sidecar.publish(ONE, ack="core", timeout_ms=50))[0] == 504
    assert (await sidecar.publish(ONE, ack="core", timeout_ms=50))[0] == 504
    mesh.gatekeeper.hang.set()
    status, answer = await sidecar.publish(ONE, ack="core")
    assert (status, answer["offset"]) == (200, 1)
    assert mesh.log.values("t") == [b"0", b"1"]


async def test_the_same_id_in_another_topic_is_another_message(mesh):
    sidecar = await mesh.sidecar()
    assert (await sidecar.publish(ONE))[1]["offset"] == 0
    assert (await sidecar.publish({**ONE, "topic": "u"}))[1]["topic"] == "u"
    assert mesh.log.values("u") == [b"1"]


@pytest.mark.parametrize("refusal", ["denied", "over_quota"])
async def test_an_id_whose_message_was_refused_may_be_used_again(mesh, refusal):
    sidecar = await mesh.sidecar()
    mesh.gatekeeper.failures += [refusal]
    assert (await sidecar.publish(ONE))[0] in (403, 429)
    assert (await sidecar.publish(ONE))[0] == 200
    assert mesh.log.values("t") == [b"1"]


async def test_the_window_outlives_the_sidecar(mesh):
    sidecar = await mesh.sidecar()
    first = await sidecar.publish(ONE)
    mesh.sidecars.remove(sidecar)
    await sidecar.stop()
    again = await mesh.sidecar()
    assert await again.publish(ONE) == first
    assert mesh.log.values("t") == [b"1"]


async def test_a_spooled_message_is_recognised_after_a_restart(mesh):
    sidecar = await mesh.sidecar()
    await sidecar.publish({"topic": "t", "message": 0})
    await mesh.gatekeeper.listening.stop()
    await sidecar.down()
    assert (await sidecar.publish(ONE))[0] == 202
    mesh.sidecars.remove(sidecar)
    await sidecar.stop()
    again = await mesh.sidecar(connected=False)
    assert (await again.publish(ONE, timeout_ms=50))[0] == 202
    await mesh.gatekeeper.listening.start()
    await again.connected()
    status, answer = await again.publish(ONE, ack="core")
    assert (status, answer["offset"]) == (200, 1)
    assert mesh.log.values("t") == [b"0", b"1"]


def begun(mesh, identity: bytes) -> None:
    """What a sidecar leaves behind that is killed while the message is under way."""
    journal = DedupeJournal(mesh.folder / "data", 100)
    journal.open()
    journal.write([Line(Mark.BEGUN, dedupe_key("t", identity), 1)])
    journal.close()


async def test_an_id_that_a_killed_sidecar_had_sent_is_found_in_the_log(mesh):
    sidecar = await mesh.sidecar(data=mesh.folder / "elsewhere")
    await sidecar.publish({"topic": "t", "message": 0})
    await sidecar.publish(ONE)
    begun(mesh, b"a")
    again = await mesh.sidecar()
    status, answer = await again.publish(ONE)
    assert (status, answer["offset"]) == (200, 1)
    assert mesh.log.values("t") == [b"0", b"1"]


async def test_an_id_that_a_killed_sidecar_had_not_sent_is_published(mesh):
    begun(mesh, b"a")
    mesh.log.topic("t")
    sidecar = await mesh.sidecar(dedupe=DedupeConfig(late=0.5))
    assert (await sidecar.publish(ONE))[0] == 200
    assert mesh.log.values("t") == [b"1"]


async def test_what_a_killed_sidecar_had_sent_may_arrive_late_and_is_not_doubled(mesh):
    begun(mesh, b"a")
    elsewhere = await mesh.sidecar(data=mesh.folder / "elsewhere")
    sidecar = await mesh.sidecar()
    status, answer = await sidecar.publish(ONE, timeout_ms=50)
    assert (status, answer["code"]) == (504, "in_doubt")
    assert "may still arrive" in answer["detail"]
    # Now it does.
    await elsewhere.publish(ONE)
    status, answer = await sidecar.publish(ONE)
    assert (status, answer["offset"]) == (200, 0)
    assert mesh.log.values("t") == [b"1"]


async def test_who_asks_meanwhile_is_told_the_same(mesh):
    begun(mesh, b"a")
    mesh.log.topic("t")
    sidecar = await mesh.sidecar()
    asked = [sidecar.publish(ONE, timeout_ms=100) for _ in range(3)]
    assert {status for status, _ in await asyncio.gather(*asked)} == {504}
    assert (await sidecar.publish(ONE, timeout_ms=50))[0] == 504
    assert mesh.log.values("t") == []


async def test_where_the_log_may_not_be_read_the_answer_is_in_doubt(mesh):
    begun(mesh, b"a")
    mesh.log.topic("t")
    mesh.gatekeeper.unreadable.add("t")
    sidecar = await mesh.sidecar()
    status, answer = await sidecar.publish(ONE)
    assert (status, answer["code"]) == (504, "in_doubt")
    assert mesh.log.values("t") == []


async def test_an_id_outside_of_the_window_is_a_new_message(mesh):
    sidecar = await mesh.sidecar(dedupe=DedupeConfig(ids_max=2))
    for identity in ("a", "b", "c", "a"):
        assert (await sidecar.publish({"topic": "t", "message": 1, "id": identity}))[0] == 200
    assert len(mesh.log.values("t")) == 4
