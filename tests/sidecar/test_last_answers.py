"""A sidecar that is stopped while the log is silent answers everybody before it goes."""

import asyncio

import pytest

from sidecar.last_answers import LastAnswers


async def stopping_while_the_log_is_silent(mesh, sidecar, asking):
    """Stop the sidecar with a request under way that the gatekeeper does not answer."""
    await sidecar.publish({"topic": "t", "message": "known"})
    mesh.gatekeeper.hang = asyncio.Event()
    appends = len(mesh.gatekeeper.appends)
    task = asyncio.create_task(asking())
    await sidecar.until(lambda: len(mesh.gatekeeper.appends) > appends)
    sidecar.assembly.service.ask_to_stop()
    answer = await task
    mesh.gatekeeper.hang.set()
    mesh.gatekeeper.hang = None
    return answer


@pytest.mark.parametrize("headers", [{}, {"Expect": "100-continue"}], ids=["fast", "aiohttp"])
@pytest.mark.parametrize(
    ("ack", "status", "word"),
    [("auto", 202, "spooled"), ("sidecar", 202, "spooled"), ("core", 504, "in_doubt")],
)
async def test_who_waits_for_the_log_is_answered_and_the_message_is_kept(
    mesh, ack, status, word, headers
):
    sidecar = await mesh.sidecar()

    async def publish():
        url = f"{sidecar.base}/publish?ack={ack}"
        body = b'{"topic":"t","message":1}'
        async with sidecar.client.post(url, data=body, headers=headers) as response:
            return response.status, await response.json()

    given, answer = await stopping_while_the_log_is_silent(mesh, sidecar, publish)
    assert given == status, answer
    assert word in (answer.get("durability"), answer.get("code"))
    mesh.sidecars.remove(sidecar)
    await sidecar.stop()
    again = await mesh.sidecar()
    await again.until(lambda: again.assembly.outbox.records == 0)
    assert mesh.log.values("t") == [b'"known"', b"1"]


async def test_a_body_of_lines_without_an_end_is_answered_with_what_was_taken(mesh):
    sidecar = await mesh.sidecar()
    more = asyncio.Event()

    async def body():
        yield b"x" * 99 + b"\n"
        yield (b"y" * 99 + b"\n") * 10_000
        await more.wait()

    async def lines():
        url = f"{sidecar.base}/publish/t/lines"
        async with sidecar.client.post(url, data=body()) as response:
            return response.status, await response.json()

    status, answer = await stopping_while_the_log_is_silent(mesh, sidecar, lines)
    more.set()
    assert (status, answer["code"]) == (503, "stopping")
    taken = answer["published"]["count"]
    assert 0 < taken == answer["line"]
    mesh.sidecars.remove(sidecar)
    await sidecar.stop()
    again = await mesh.sidecar()
    await again.until(lambda: again.assembly.outbox.records == 0)
    assert len(mesh.log.values("t")) == 1 + taken


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
