"""A sidecar process that is killed -9, again and again, while gatekeeper and issuer come and go."""

import asyncio
import random

import pytest


@pytest.fixture
def play(mesh, sidecar_process, under_load, make_load, until_settled, stored, tmp_path):
    async def run(rounds, seed):
        chance = random.Random(seed)
        # A gatekeeper in this process holds no request back for longer.
        sidecar = await sidecar_process(tmp_path / "killed", dedupe={"late": "1s"})
        loads = under_load(
            make_load(sidecar.base, 0, "auto"),
            make_load(sidecar.base, 1, "core"),
            make_load(sidecar.base, 2, "sidecar", with_ids=True),
            make_load(sidecar.base, 3, "auto", lines=True),
            make_load(sidecar.base, 4, "auto", lines=True, pad=8000),
            make_load(sidecar.base, 5, "core", lines=True, pad=8000),
            make_load(sidecar.base, 6, "core", with_ids=True),
            make_load(sidecar.base, 7, "auto", with_ids=True),
        )
        for _ in range(rounds):
            # Each round begins when every worker gets messages through again.
            await loads.progress()
            await asyncio.sleep(chance.uniform(0.05, 0.5))
            what = chance.choice(["sidecar", "sidecar", "gatekeeper", "lose", "both"])
            if what in ("gatekeeper", "both"):
                await mesh.gatekeeper.listening.stop()
            if what == "lose":
                mesh.gatekeeper.failures += chance.choices(
                    ["drop", "lose", 503, "unavailable"], k=3
                )
            if what in ("sidecar", "both"):
                await sidecar.kill()
                await sidecar.start()
            if what in ("gatekeeper", "both"):
                await asyncio.sleep(chance.uniform(0.1, 0.8))
                await mesh.gatekeeper.listening.start()
        mesh.gatekeeper.failures.clear()
        await loads.stop()
        await until_settled(sidecar.base)
        # Fails where anything that was taken is lost, doubled or out of order.
        counts = loads.judge(stored(mesh))
        print(counts)
        return counts

    return run


async def test_killed_at_random_nothing_taken_is_lost_or_doubled(play):
    counts = await play(rounds=4, seed=1)
    assert counts["stored"] >= counts["taken"] > 0, counts


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", range(5))
async def test_killed_at_random_for_minutes(play, seed):
    counts = await play(rounds=60, seed=seed)
    assert counts["stored"] >= counts["taken"] > 0, counts
    assert counts.get("none"), "requests were cut by the kills"
