"""A sidecar that is stopped while the log is silent answers everybody before it goes."""

import asyncio
import json

import pytest

from sidecar.publish.last_answers import LastAnswers

EXPECTED = {"auto": (202, "spooled"), "sidecar": (202, "spooled"), "core": (504, "in_doubt")}
WAYS = {"fast": {}, "aiohttp": {"Expect": "100-continue"}}


async def test_a_sidecar_that_stops_while_the_log_is_silent_answers_everybody_and_keeps_all(mesh):
    sidecar = await mesh.sidecar()
    await sidecar.publish({"topic": "t", "message": "known"})
    mesh.gatekeeper.hang = asyncio.Event()
    more = asyncio.Event()

    async def publish(ack, way):
        url = f"{sidecar.base}/publish?ack={ack}"
        body = json.dumps({"topic": "t", "message": f"{ack} {way}"})
        async with sidecar.client.post(url, data=body, headers=WAYS[way]) as response:
            return response.status, await response.json()

    async def endless():
        yield b"x" * 99 + b"\n"
        yield (b"y" * 99 + b"\n") * 10_000
        await more.wait()

    async def lines():
        url = f"{sidecar.base}/publish/lines/lines"
        async with sidecar.client.post(url, data=endless()) as response:
            return response.status, await response.json()

    asked = {(ack, way): asyncio.create_task(publish(ack, way)) for ack in EXPECTED for way in WAYS}
    body = asyncio.create_task(lines())
    lanes = sidecar.assembly.publisher.lanes
    await sidecar.until(lambda: ("lines", 0) in lanes and not lanes["lines", 0].empty)
    # Those two wait for the disk alone; the others for the log, and none was told anything yet.
    await asyncio.gather(*(asked["sidecar", way] for way in WAYS))
    front = next(
        each for each in sidecar.assembly.service._components if each.name == "fast publish"
    )
    await sidecar.until(lambda: sum(each.busy for each in front.connections) == 2)
    await sidecar.until(lambda: sidecar.assembly.site.in_flight == 3)
    sidecar.assembly.service.ask_to_stop()

    for (ack, way), task in asked.items():
        status, answer = await task
        word = answer.get("durability", answer.get("code"))
        assert (status, word) == EXPECTED[ack], (ack, way, answer)
    status, answer = await body
    more.set()
    assert (status, answer["code"]) == (503, "stopping")
    taken = answer["published"]["count"]
    assert 0 < taken == answer["line"]

    mesh.gatekeeper.hang.set()
    mesh.gatekeeper.hang = None
    mesh.sidecars.remove(sidecar)
    await sidecar.stop()
    again = await mesh.sidecar()
    await again.until(lambda: again.assembly.outbox.records == 0)
    found = mesh.log.values("t")
    assert len(found) == len(set(found)) == 1 + len(asked)
    assert len(mesh.log.values("lines")) == taken


@pytest.mark.parametrize("log_answers", [True, False])
async def test_who_waits_while_a_topic_is_looked_up_is_answered_too(mesh, log_answers):
    sidecar = await mesh.sidecar()
    await sidecar.publish({"topic": "t", "message": "known"})
    mesh.gatekeeper.hang_topics = asyncio.Event()
    if not log_answers:
        mesh.gatekeeper.hang = asyncio.Event()

    async def publish(ack, way, path, body):
        url = f"{sidecar.base}{path}?ack={ack}"
        async with sidecar.client.post(url, data=body, headers=WAYS[way]) as response:
            return response.status, await response.json()

    bodies = {
        "/publish": json.dumps({"topic": "fresh", "message": 1}),
        "/publish/fresh": "1",
        "/publish/fresh/batch": '[{"message":1},{"message":2}]',
        "/publish/fresh/lines": "1\n2\n",
    }
    asked = {
        (ack, way, path): asyncio.create_task(publish(ack, way, path, body))
        for ack in EXPECTED
        for way in WAYS
        for path, body in bodies.items()
    }
    front = next(
        each for each in sidecar.assembly.service._components if each.name == "fast publish"
    )
    busy = lambda: sum(each.busy for each in front.connections)  # noqa: E731
    await sidecar.until(lambda: busy() + sidecar.assembly.site.in_flight == len(asked))
    sidecar.assembly.service.ask_to_stop()
    for (ack, *how), task in asked.items():
        status, answer = await task
        word = answer.get("durability", answer.get("code"))
        committed = log_answers and ack != "sidecar"
        wanted = [(200, "committed"), EXPECTED[ack]] if committed else [EXPECTED[ack]]
        assert (status, word) in wanted, (ack, how, answer)
    mesh.gatekeeper.hang_topics.set()
    mesh.gatekeeper.hang_topics = None
    if mesh.gatekeeper.hang is not None:
        mesh.gatekeeper.hang.set()
        mesh.gatekeeper.hang = None
    mesh.sidecars.remove(sidecar)
    await sidecar.stop()
    again = await mesh.sidecar()
    await again.until(lambda: again.assembly.outbox.records == 0)
    # Two ways, three kinds of acknowledgement, six messages each; none lost, none twice.
    assert sorted(mesh.log.values("fresh")) == [b"1"] * 24 + [b"2"] * 12


async def test_what_the_log_still_answers_in_time_is_committed(mesh):
    sidecar = await mesh.sidecar()
    await sidecar.publish({"topic": "t", "message": 0})
    mesh.gatekeeper.hang = asyncio.Event()
    task = asyncio.create_task(sidecar.publish({"topic": "t", "message": 1}))
    await sidecar.until(lambda: len(mesh.gatekeeper.appends) > 1)
    sidecar.assembly.service.ask_to_stop()
    await asyncio.sleep(0)
    mesh.gatekeeper.hang.set()
    assert (await task)[0] == 200


async def test_without_a_drain_nobody_is_hurried():
    class Impatient:
        def hurry(self):
            raise AssertionError

    answers = LastAnswers(Impatient(), 0.0)
    await answers.start()
    await answers.stop()
    await asyncio.sleep(0.01)
