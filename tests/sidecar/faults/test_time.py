"""Long outages, an issuer that is away for an hour, and clocks that somebody sets."""

import asyncio
import json

HOUR_S = 3600.0


async def test_an_outage_of_days_loses_and_doubles_nothing(
    mesh, clock, sidecar_process, until_settled, tmp_path
):
    sidecar = await sidecar_process(tmp_path / "data", environ=clock.environ)
    await sidecar.until(lambda status: status["uplink"] == "connected")
    assert (await sidecar.publish(0))[0] == 200
    await mesh.gatekeeper.listening.stop()
    await mesh.issuer.listening.stop()
    await sidecar.until(lambda status: status["uplink"] == "down")
    for number in range(1, 160):
        status, answer = await sidecar.publish(number)
        assert (status, answer["durability"]) == (202, "spooled")
        if number % 20 == 0:
            clock.pass_by(12 * HOUR_S)
        if number == 90:
            await sidecar.kill()
            await sidecar.start()
    spool = (await sidecar.get("/status"))[1]["spool"]
    assert spool["messages"] == 159
    assert spool["oldest_age_s"] > 24 * HOUR_S
    assert (await sidecar.get("/readyz"))[0] == 200
    await mesh.issuer.listening.start()
    await mesh.gatekeeper.listening.start()
    await until_settled(sidecar.base)
    assert [json.loads(value) for value in mesh.log.values("t")] == list(range(160))
    assert (await sidecar.get("/status"))[1]["spool"]["oldest_age_s"] == 0


async def test_an_issuer_that_is_away_for_an_hour_is_missed_and_nothing_else(
    mesh, clock, sidecar_process, under_load, make_load, until_settled, stored, tmp_path
):
    mesh.issuer.life_s = 600
    sidecar = await sidecar_process(tmp_path / "data", environ=clock.environ)
    loads = under_load(
        make_load(sidecar.base, 0, "auto"),
        make_load(sidecar.base, 1, "sidecar"),
        make_load(sidecar.base, 2, "auto", with_ids=True),
        make_load(sidecar.base, 3, "auto", lines=True),
    )
    await loads.progress()
    first = mesh.gatekeeper.tokens[-1]
    await mesh.issuer.listening.stop()
    # Most of a token's life is left: nobody notices.
    clock.pass_by(300)
    await loads.progress()
    assert (await sidecar.get("/status"))[1]["uplink"] == "connected"
    # It ends, and the gatekeeper would not take it any more.
    mesh.gatekeeper.refused_tokens.add(first)
    for _ in range(2):
        clock.pass_by(HOUR_S / 2)
        await loads.progress()
    status = await sidecar.until(
        lambda status: status["uplink"] == "down" and status["token"] == "none"
    )
    assert "no token from" in status["token_error"]
    assert status["spool"]["messages"] > 0
    await loads.progress()
    await mesh.issuer.listening.start()
    await sidecar.until(lambda status: status["uplink"] == "connected")
    await loads.progress()
    await loads.stop()
    await until_settled(sidecar.base)
    counts = loads.judge(stored(mesh))
    assert counts["202 spooled"] > 0
    assert counts["stored"] == counts["taken"], "nothing was in doubt for ever"


async def test_clocks_that_are_set_forward_and_back_change_nothing(
    mesh, clock, sidecar_process, under_load, make_load, until_settled, stored, tmp_path
):
    sidecar = await sidecar_process(tmp_path / "data", environ=clock.environ)
    loads = under_load(
        make_load(sidecar.base, 0, "auto", with_ids=True),
        make_load(sidecar.base, 1, "core", with_ids=True),
        make_load(sidecar.base, 2, "sidecar"),
        make_load(sidecar.base, 3, "auto", lines=True),
    )
    for number, step in enumerate((2 * HOUR_S, -5 * HOUR_S, 90.0, -400 * 24 * HOUR_S, HOUR_S)):
        await loads.progress()
        clock.step(step)
        if number == 2:
            await mesh.gatekeeper.listening.stop()
            await sidecar.until(lambda status: status["uplink"] == "down")
            await asyncio.sleep(0.2)
            clock.step(-step)
            await mesh.gatekeeper.listening.start()
            await sidecar.until(lambda status: status["uplink"] == "connected")
        if number == 3:
            await sidecar.kill()
            await sidecar.start()
    await loads.progress()
    await loads.stop()
    await until_settled(sidecar.base)
    loads.judge(stored(mesh))
    status = (await sidecar.get("/status"))[1]
    assert status["spool"]["oldest_age_s"] == 0


async def test_an_id_is_not_forgotten_because_somebody_sets_the_clock(
    mesh, clock, sidecar_process, tmp_path
):
    settings = {"dedupe": {"age": "1h"}}
    sidecar = await sidecar_process(tmp_path / "data", environ=clock.environ, **settings)
    await sidecar.until(lambda status: status["uplink"] == "connected")

    async def publish():
        return (await sidecar.publish(1, id="a"))[1]

    first = await publish()
    for step in (2 * HOUR_S, -4 * HOUR_S, 2 * HOUR_S):
        clock.step(step)
        assert await publish() == first
    # Its age is what counts.
    clock.pass_by(2 * HOUR_S)
    assert (await publish())["offset"] == 1
