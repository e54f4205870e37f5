"""Rejects over HTTP, where a retry is refused half way."""


async def rejected(mesh, count):
    sidecar = await mesh.sidecar()
    await sidecar.publish({"topic": "t", "message": "first"})
    mesh.gatekeeper.failures += ["denied"]
    body = b"".join(b'{"message":%d}\n' % number for number in range(count))
    async with sidecar.client.post(
        f"{sidecar.base}/publish/t/batch?ack=none", data=body
    ) as response:
        assert response.status == 202
    await sidecar.answered("t")
    return sidecar, (await sidecar.get("/rejects"))[1]["rejects"]


async def test_a_retry_that_is_refused_half_way_keeps_only_what_was_not_published(mesh):
    sidecar, (reject,) = await rejected(mesh, 600)
    assert reject["messages"] == 600
    append, taken = mesh.log.append, []

    def some_then_deny(frame):
        if sum(taken) >= 256:
            return {"topic": "t", "partition": 0, "error": "denied", "detail": "no more"}
        taken.append(frame.envelope.producer.count)
        return append(frame)

    mesh.log.append = some_then_deny
    url = f"{sidecar.base}/rejects/{reject['id']}/retry"
    async with sidecar.client.post(url) as response:
        assert response.status == 403
    (left,) = (await sidecar.get("/rejects"))[1]["rejects"]
    assert (left["id"], left["messages"]) == (reject["id"], 600 - sum(taken))
    mesh.log.append = append
    async with sidecar.client.post(url) as response:
        assert await response.json() == {"retried": 600 - sum(taken)}
    assert mesh.log.values("t") == [b'"first"', *(b"%d" % number for number in range(600))]
    assert (await sidecar.get("/rejects"))[1]["rejects"] == []


async def test_rejects_of_one_topic_are_listed_retried_and_dropped_apart(mesh):
    sidecar = await mesh.sidecar()
    for topic in ("a", "b", "b"):
        mesh.gatekeeper.failures += ["denied"]
        await sidecar.publish({"topic": topic, "message": topic}, ack="sidecar")
        await sidecar.answered(topic)
    assert [each["topic"] for each in (await sidecar.get("/rejects"))[1]["rejects"]] == list("abb")
    listed = (await sidecar.get("/rejects", topic="b"))[1]["rejects"]
    assert [each["topic"] for each in listed] == ["b", "b"]
    assert all(each["bytes"] > 100 for each in listed)
    async with sidecar.client.delete(f"{sidecar.base}/rejects?topic=b") as response:
        assert await response.json() == {"dropped": 2, "messages": 2}
    async with sidecar.client.post(f"{sidecar.base}/rejects/retry?topic=b") as response:
        assert await response.json() == {"retried": 0, "refused": []}
    async with sidecar.client.post(f"{sidecar.base}/rejects/retry?topic=a") as response:
        assert await response.json() == {"retried": 1, "refused": []}
    assert (mesh.log.values("a"), mesh.log.values("b")) == ([b'"a"'], [])


async def test_an_unknown_parameter_is_refused_and_nothing_is_done(mesh):
    sidecar, (reject,) = await rejected(mesh, 1)
    for method, path in (
        ("GET", "/rejects"),
        ("DELETE", "/rejects"),
        ("POST", "/rejects/retry"),
        ("POST", f"/rejects/{reject['id']}/retry"),
        ("DELETE", f"/rejects/{reject['id']}"),
    ):
        async with sidecar.client.request(method, f"{sidecar.base}{path}?topics=t") as response:
            assert (response.status, (await response.json())["code"]) == (400, "bad_parameter")
    assert (await sidecar.get("/rejects"))[1]["rejects"] == [reject]


async def test_a_reject_that_is_not_there_is_404_and_a_bad_number_400(mesh):
    sidecar = await mesh.sidecar()
    for path, status in (("/rejects/7", 404), ("/rejects/x", 400)):
        async with sidecar.client.delete(sidecar.base + path) as response:
            assert response.status == status
