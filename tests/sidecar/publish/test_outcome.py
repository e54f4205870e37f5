"""Every cell of the outcome table, driven through the HTTP API."""

import asyncio

import pytest

from sidecar.config import SpoolConfig
from sidecar.publish.batch import Ack
from sidecar.publish.outcome import OUTCOMES, Answer, Situation

CELLS = [(situation, ack) for situation in Situation for ack in Ack]


def test_the_table_has_a_cell_for_every_situation_and_every_ack():
    assert set(OUTCOMES) == set(Situation)
    assert all(set(row) == set(Ack) for row in OUTCOMES.values())


class Stage:
    """Brings a sidecar into a situation and publishes one message there."""

    def __init__(self, mesh):
        self.mesh = mesh

    async def publish(self, situation, ack):
        return await getattr(self, situation.name.lower())(ack)

    async def committed(self, ack):
        sidecar = await self.mesh.sidecar()
        return await self._one(sidecar, ack)

    async def uplink_down(self, ack):
        sidecar = await self._down()
        return await self._one(sidecar, ack)

    async def no_answer(self, ack):
        sidecar = await self._hanging()
        return await self._one(sidecar, ack, timeout_ms=60)

    async def behind_spool(self, ack):
        sidecar = await self._hanging()
        assert (await self._one(sidecar, Ack.AUTO, timeout_ms=60))[0] == 202
        answer = asyncio.create_task(self._one(sidecar, ack, timeout_ms=60_000))
        if ack is Ack.CORE:
            await sidecar.until(lambda: sidecar.assembly.publisher.waiting_messages > 0)
        else:
            # It does not wait for what is before it.
            await asyncio.wait_for(asyncio.shield(answer), 50)
        self.mesh.gatekeeper.hang.set()
        return await answer

    async def spool_full(self, ack):
        sidecar = await self._down(spool=SpoolConfig(bytes_max=3000, segment_bytes=1500))
        while (await sidecar.publish({"topic": "t", "message": "x" * 500}))[0] == 202:
            pass
        if ack is Ack.CORE:
            await self.mesh.gatekeeper.listening.start()
            await sidecar.connected()
        return await self._one(sidecar, ack)

    async def denied(self, ack):
        sidecar = await self.mesh.sidecar()
        answer = await sidecar.publish({"topic": "forbidden.x", "message": 1}, ack=ack.value)
        await sidecar.answered("forbidden.x")
        status = (await sidecar.get("/status"))[1]
        assert status["rejects"]["messages"] == (1 if ack.detached else 0)
        return answer

    async def over_quota(self, ack):
        sidecar = await self.mesh.sidecar()
        self.mesh.gatekeeper.failures += ["over_quota"]
        answer = await self._one(sidecar, ack)
        await sidecar.answered("t")
        assert self.mesh.log.values("t") == ([b'"m"'] if ack.detached else [])
        return answer

    async def _one(self, sidecar, ack, **query):
        return await sidecar.publish({"topic": "t", "message": "m"}, ack=ack.value, **query)

    async def _down(self, **changes):
        sidecar = await self.mesh.sidecar(**changes)
        await self.mesh.gatekeeper.listening.stop()
        await sidecar.down()
        return sidecar

    async def _hanging(self):
        sidecar = await self.mesh.sidecar()
        await sidecar.publish({"topic": "t", "message": "first"})
        self.mesh.gatekeeper.hang = asyncio.Event()
        return sidecar


@pytest.mark.parametrize(
    ("situation", "ack"), CELLS, ids=[f"{s.name.lower()}-{a.value}" for s, a in CELLS]
)
async def test_each_cell_answers_as_the_table_says(mesh, situation, ack):
    stage = Stage(mesh)
    status, answer = await stage.publish(situation, ack)
    if mesh.gatekeeper.hang is not None:
        mesh.gatekeeper.hang.set()
    expected = OUTCOMES[situation][ack]
    if expected in (Answer.WAIT, Answer.UNCONCERNED):
        assert (status, answer["durability"]) == (200, "committed")
        return
    assert (status, answer.get("durability", answer.get("code"))) == expected.value


@pytest.mark.parametrize("situation", [Situation.UPLINK_DOWN, Situation.OVER_QUOTA])
async def test_answers_that_ask_to_come_back_say_when(mesh, situation):
    sidecar = await mesh.sidecar()
    if situation is Situation.UPLINK_DOWN:
        await mesh.gatekeeper.listening.stop()
        await sidecar.down()
    else:
        mesh.gatekeeper.failures += ["over_quota"]
    async with sidecar.client.post(
        f"{sidecar.base}/publish?ack=core", data=b'{"topic":"t","message":1}'
    ) as response:
        assert response.status in (503, 429)
        assert int(response.headers["Retry-After"]) >= 1
