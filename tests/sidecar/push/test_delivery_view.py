"""The view of a delivery: each state has its word, and what is not known is null."""

import msgspec

from sidecar.push.delivery_view import delivery_view
from sidecar.push.push_plan import Tally, plan_of
from sidecar.push.pushes import Running
from sidecar.push.subscription_types import DeliveryView

PLAN = plan_of(
    {
        "name": "m",
        "owner": "app",
        "topic": "t",
        "mode": "ordered",
        "settings": {"push": {"url": "http://127.0.0.1:1/"}},
    }
)


def test_what_another_sidecar_does_is_not_known_here():
    view = delivery_view(None, 0.0, 0)
    assert (view["state"], view["last_error"]) == ("elsewhere", None)
    msgspec.convert(view, DeliveryView)


def test_a_worker_that_ended_says_why_and_its_counts_stay():
    running = Running(PLAN, {}, error="denied", tally=Tally(delivered=7))
    view = delivery_view(running, 0.0, 0)
    assert (view["state"], view["last_error"], view["delivered"]) == ("failed", "denied", 7)
    msgspec.convert(view, DeliveryView)
    assert delivery_view(Running(PLAN, {}), 0.0, 0)["state"] == "starting"


async def test_a_worker_that_works_is_shown_as_it_is(mesh, hook):
    sidecar = await mesh.sidecar()
    wanted = {"name": "m", "topic": "t", "push": {"url": hook.url}}
    async with sidecar.client.post(f"{sidecar.base}/subscriptions", json=wanted) as response:
        assert response.status == 201
    await sidecar.publish({"topic": "t", "message": 1})
    await hook.until(1)
    running = sidecar.assembly.pushes.running["m"]
    await sidecar.until(lambda: running.worker.tally.delivered == 1)
    view = delivery_view(running, 0.0, 0)
    assert (view["state"], view["delivered"], view["held"]) == ("delivering", 1, 0)
    msgspec.convert(view, DeliveryView)
