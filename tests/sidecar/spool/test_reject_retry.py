"""A retry publishes each refused message once, whatever had become of it before."""

import asyncio

import pytest

from log_format.frame import iter_frames
from sidecar.config import DedupeConfig


async def refuse_after_202(mesh, sidecar, *documents, answer_lost=False):
    """Messages that were spooled and are then denied; their rejects."""
    await mesh.gatekeeper.listening.stop()
    await sidecar.down()
    for document in documents:
        assert (await sidecar.publish({"topic": "t", **document}))[0] == 202
    mesh.gatekeeper.failures += ["drop", "denied"] if answer_lost else ["denied"]
    await mesh.gatekeeper.listening.start()
    await sidecar.connected()
    await sidecar.answered("t")
    rejects = (await sidecar.get("/rejects"))[1]["rejects"]
    assert sum(each["messages"] for each in rejects) == len(documents)
    return rejects


async def retry(sidecar, query=""):
    async with sidecar.client.post(f"{sidecar.base}/rejects/retry{query}") as response:
        assert response.status == 200
        return await response.json()


def ids(mesh):
    found = []
    for _, whole in mesh.log.frames.get(("t", 0), ()):
        (frame,) = iter_frames(whole)
        found += list(frame.columns().id)
    return found


async def test_messages_are_published_in_order_with_the_id_that_they_had(mesh):
    sidecar = await mesh.sidecar()
    await refuse_after_202(mesh, sidecar, {"message": 1}, {"message": 2, "id": "own"})
    assert await retry(sidecar) == {"retried": 2, "refused": []}
    assert mesh.log.values("t") == [b"1", b"2"]
    derived, own = ids(mesh)
    assert derived.count(b"-") == 3
    assert own == b"own"
    assert await retry(sidecar) == {"retried": 0, "refused": []}


async def test_what_the_log_has_since_a_lost_answer_is_not_published_again(mesh):
    sidecar = await mesh.sidecar()
    rejects = await refuse_after_202(
        mesh, sidecar, {"message": 1}, {"message": 2, "id": "own"}, answer_lost=True
    )
    assert all(each["doubtful"] for each in rejects)
    assert mesh.log.values("t") == [b"1", b"2"]
    assert (await retry(sidecar))["retried"] == 2
    assert mesh.log.values("t") == [b"1", b"2"]
    assert (await sidecar.get("/rejects"))[1]["rejects"] == []


async def test_an_id_that_was_refused_in_doubt_is_answered_from_the_log(mesh):
    sidecar = await mesh.sidecar()
    document = {"message": 2, "id": "own"}
    await refuse_after_202(mesh, sidecar, document, answer_lost=True)
    status, answer = await sidecar.publish({"topic": "t", **document})
    assert (status, answer["offset"]) == (200, 0)
    assert mesh.log.values("t") == [b"2"]


async def test_where_the_log_cannot_be_asked_it_stays_unless_forced(mesh):
    sidecar = await mesh.sidecar()
    (reject,) = await refuse_after_202(mesh, sidecar, {"message": 1}, answer_lost=True)
    mesh.gatekeeper.unreadable.add("t")
    done = await retry(sidecar)
    assert done["retried"] == 0
    assert [(each["id"], each["code"]) for each in done["refused"]] == [(reject["id"], "in_doubt")]
    assert "force=true" in done["refused"][0]["detail"]
    assert mesh.log.values("t") == [b"1"]
    assert (await retry(sidecar, "?force=true"))["retried"] == 1
    assert mesh.log.values("t") == [b"1", b"1"]


async def test_a_retry_that_a_crash_cuts_short_publishes_nothing_twice(mesh):
    sidecar = await mesh.sidecar()
    await refuse_after_202(mesh, sidecar, *({"message": n} for n in range(5)))
    file = mesh.folder / "data" / "rejects.jsonl"
    before = file.read_bytes()
    assert (await retry(sidecar))["retried"] == 5
    await sidecar.stop()
    mesh.sidecars.clear()
    # As if the sidecar had been killed before it could forget them.
    file.write_bytes(before)
    again = await mesh.sidecar()
    assert (await retry(again))["retried"] == 5
    assert mesh.log.values("t") == [b"%d" % n for n in range(5)]


async def test_two_retries_at_the_same_time_publish_once(mesh):
    sidecar = await mesh.sidecar()
    (reject,) = await refuse_after_202(mesh, sidecar, {"message": 1})
    mesh.gatekeeper.hang = asyncio.Event()
    url = f"{sidecar.base}/rejects/{reject['id']}/retry"
    first = asyncio.create_task(sidecar.client.post(url))
    appended = len(mesh.gatekeeper.appends)
    await sidecar.until(lambda: len(mesh.gatekeeper.appends) > appended)
    async with sidecar.client.post(url) as second:
        assert (second.status, (await second.json())["code"]) == (409, "being_retried")
    mesh.gatekeeper.hang.set()
    async with await first as response:
        assert await response.json() == {"retried": 1}
    assert mesh.log.values("t") == [b"1"]


@pytest.mark.parametrize("count", [300])
async def test_more_than_go_together_keep_their_order(mesh, count):
    sidecar = await mesh.sidecar()
    await sidecar.publish({"topic": "t", "message": "first"})
    mesh.gatekeeper.failures += ["denied"]
    body = b"".join(b"%d\n" % number for number in range(count))
    url = f"{sidecar.base}/publish/t/lines?ack=none"
    async with sidecar.client.post(url, data=body) as response:
        assert response.status == 202
    await sidecar.answered("t")
    assert (await retry(sidecar))["retried"] == count
    assert mesh.log.values("t")[1:] == [b"%d" % number for number in range(count)]


async def test_what_may_still_arrive_is_retried_later(mesh):
    sidecar = await mesh.sidecar()
    await mesh.gatekeeper.listening.stop()
    await sidecar.down()
    await sidecar.publish({"topic": "t", "message": 1})
    # The first try is lost before it reaches the log, the second is denied.
    mesh.gatekeeper.failures += ["lose", "denied"]
    await mesh.gatekeeper.listening.start()
    await sidecar.connected()
    await sidecar.answered("t")
    done = await retry(sidecar)
    assert (done["retried"], done["refused"][0]["code"]) == (0, "in_doubt")
    assert "may still reach the log" in done["refused"][0]["detail"]
    mesh.sidecars.remove(sidecar)
    await sidecar.stop()
    again = await mesh.sidecar(dedupe=DedupeConfig(late=0.0))
    assert (await retry(again))["retried"] == 1
    assert mesh.log.values("t") == [b"1"]


async def test_none_overtakes_an_older_one_of_its_partition_that_stays(mesh):
    sidecar = await mesh.sidecar()
    for topic, message in (("t", 1), ("t", 2), ("u", 3)):
        mesh.gatekeeper.failures += ["denied"]
        await sidecar.publish({"topic": topic, "message": message}, ack="sidecar")
        await sidecar.answered(topic)
    mesh.gatekeeper.failures += ["denied"]
    done = await retry(sidecar)
    assert done["retried"] == 1
    assert [(each["topic"], each["code"]) for each in done["refused"]] == [
        ("t", "denied"),
        ("t", "held_back"),
    ]
    assert mesh.log.values("u") == [b"3"]
    assert (await retry(sidecar))["retried"] == 2
    assert mesh.log.values("t") == [b"1", b"2"]
