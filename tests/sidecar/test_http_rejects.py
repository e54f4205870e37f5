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
    await sidecar.until(lambda: sidecar.assembly.publisher.lanes["t", 0].empty)
    return sidecar, (await sidecar.get("/rejects"))[1]["rejects"]


async def test_a_retry_that_is_refused_half_way_keeps_only_what_was_not_published(mesh):
    sidecar, (reject,) = await rejected(mesh, 4)
    assert reject["messages"] == 4
    append, seen = mesh.log.append, []

    def two_then_deny(frame):
        seen.append(frame)
        if len(seen) == 3:
            place = {"topic": "t", "partition": 0}
            return {**place, "error": "denied", "detail": "no more"}
        return append(frame)

    mesh.log.append = two_then_deny
    url = f"{sidecar.base}/rejects/{reject['id']}/retry"
    async with sidecar.client.post(url) as response:
        assert response.status == 403
    (left,) = (await sidecar.get("/rejects"))[1]["rejects"]
    assert (left["id"], left["messages"]) == (reject["id"], 2)
    mesh.log.append = append
    async with sidecar.client.post(url) as response:
        assert await response.json() == {"retried": 2}
    assert mesh.log.values("t") == [b'"first"', b"0", b"1", b"2", b"3"]
    assert (await sidecar.get("/rejects"))[1]["rejects"] == []


async def test_a_reject_that_is_not_there_is_404_and_a_bad_number_400(mesh):
    sidecar = await mesh.sidecar()
    for path, status in (("/rejects/7", 404), ("/rejects/x", 400)):
        async with sidecar.client.delete(sidecar.base + path) as response:
            assert response.status == status
