"""Numbers of pushes, for people and for Prometheus."""


async def test_status_and_metrics_tell_the_same(mesh, hook):
    sidecar = await mesh.sidecar()
    hook.answers = [500]
    wanted = {
        "name": "m",
        "topic": "t",
        "push": {"url": hook.url},
        "retry": {"first_ms": 1, "max_ms": 1},
    }
    async with sidecar.client.post(f"{sidecar.base}/subscriptions", json=wanted) as response:
        assert response.status == 201
    await sidecar.publish({"topic": "t", "message": 1})
    await hook.until(2)
    worker = sidecar.assembly.pushes.running["m"].worker
    await sidecar.until(lambda: worker.tally.delivered == 1)
    status = (await sidecar.get("/status"))[1]["pushes"]
    assert (status["subscriptions"], status["delivered"], status["failed"]) == (1, 1, 1)
    assert (status["unreachable"], status["error"]) == ([], None)
    async with sidecar.client.get(f"{sidecar.base}/metrics") as response:
        text = await response.text()
    assert "sidegate_sidecar_push_delivered_messages_total 1.0" in text
    assert "sidegate_sidecar_push_failed_messages_total 1.0" in text
    assert 'sidegate_sidecar_push_unreachable{subscription="m"} 0.0' in text
