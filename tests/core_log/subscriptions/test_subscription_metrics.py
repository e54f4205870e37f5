"""Subscriptions in numbers, with no label that a caller could choose."""

from typing import Any

from aiohttp import ClientSession

OWNED = {"headers": {"Sidegate-Principal": "billing"}}


async def scrape(core: Any) -> dict[str, float]:
    url = f"http://127.0.0.1:{core.core.health.address.port}/metrics"
    async with ClientSession() as session, session.get(url) as answer:
        text = await answer.text()
    lines = [line for line in text.splitlines() if line.startswith("sidegate_core_")]
    return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines}


async def test_lag_members_and_redeliveries_are_told_for_all_together(
    core: Any, frames: Any, join: Any
) -> None:
    await core.call("POST", "/v1/topics", json={"name": "orders"})
    for name in ("mailer", "idle"):
        body = {"name": name, "topic": "orders", "from": "earliest"}
        await core.call("POST", "/v1/subscriptions", json=body, **OWNED)
    await core.append(frames.encoded("orders", [b"a", b"b", b"c"]))
    member = await join(core)
    await member.frame()
    await member.ack((0, 0))
    await member.until("acked")
    numbers = await scrape(core)
    assert numbers["sidegate_core_subscriptions"] == 2
    assert numbers["sidegate_core_subscription_members"] == 1
    assert numbers["sidegate_core_subscription_in_flight"] == 2
    assert numbers["sidegate_core_subscription_lag"] == 5
    assert numbers["sidegate_core_subscription_lag_max"] == 3
    newer = await join(core)
    await newer.frame()
    numbers = await scrape(core)
    assert numbers["sidegate_core_redelivered_messages_total"] == 2
    await core.call("DELETE", "/v1/subscriptions/mailer", **OWNED)
    numbers = await scrape(core)
    assert numbers["sidegate_core_redelivered_messages_total"] == 2, "a counter never falls"
    assert not any("mailer" in name or "billing" in name for name in numbers)
