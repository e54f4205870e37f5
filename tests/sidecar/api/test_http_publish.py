"""One message in one request, whatever its body is."""

import pytest


@pytest.fixture
async def sidecar(mesh):
    return await mesh.sidecar()


async def post(sidecar, path, data, headers=None, **query):
    url = f"{sidecar.base}{path}"
    async with sidecar.client.post(url, data=data, headers=headers, params=query) as response:
        return response.status, await response.json(content_type=None)


@pytest.mark.parametrize(
    ("body", "headers", "shown"),
    [
        (b'{"a":1}', {"Content-Type": "application/json"}, {"message": {"a": 1}}),
        (b'{"a":1}', {"Content-Type": "application/x-www-form-urlencoded"}, {"message": {"a": 1}}),
        (
            b"a=1",
            {"Content-Type": "application/x-www-form-urlencoded"},
            {"data_base64": "YT0x", "content_type": "application/octet-stream"},
        ),
        (
            b"\x00\xff",
            {"Content-Type": "image/png"},
            {"data_base64": "AP8=", "content_type": "image/png"},
        ),
        (
            b"{broken",
            {"Content-Type": "application/json"},
            {"data_base64": "e2Jyb2tlbg==", "content_type": "application/json"},
        ),
    ],
)
async def test_the_body_is_the_message_in_its_own_type(sidecar, body, headers, shown):
    status, answer = await post(sidecar, "/publish/t", body, headers, key="k", id="i")
    assert (status, answer["id"]) == (200, "i")
    (message,) = (await sidecar.get("/messages/t"))[1]["messages"]
    assert {name: message[name] for name in shown} == shown
    assert message["key"] == "k"


async def test_a_cloud_event_in_either_mode_is_understood(sidecar):
    binary = {
        "ce-specversion": "1.0",
        "ce-id": "1",
        "ce-source": "/s",
        "ce-type": "t",
        "Content-Type": "application/json",
    }
    assert (await post(sidecar, "/publish/t", b'{"n":1}', binary))[0] == 200
    structured = b'{"specversion":"1.0","id":"2","source":"/s","type":"t","data":{"n":2}}'
    kind = {"Content-Type": "application/cloudevents+json"}
    assert (await post(sidecar, "/publish/t", structured, kind))[0] == 200
    messages = (await sidecar.get("/messages/t"))[1]["messages"]
    assert [(each["id"], each["message"]) for each in messages] == [
        ("1", {"n": 1}),
        ("2", {"n": 2}),
    ]
    assert messages[0]["headers"] == messages[1]["headers"]
    del binary["ce-source"]
    status, problem = await post(sidecar, "/publish/t", b"{}", binary)
    assert (status, problem["detail"].partition(":")[0]) == (400, "source")


async def test_a_raw_message_over_the_limit_is_413(sidecar):
    import io

    status, _ = await post(sidecar, "/publish/t", io.BytesIO(b"x" * ((1 << 20) + 1)))
    assert status == 413


async def test_the_fast_and_the_slow_way_give_the_same_answer(sidecar):
    """A header that the fast front leaves to aiohttp must change nothing but the way."""
    body = b'{"topic":"t","message":{"a":1},"key":"k","id":"x"}'
    fast = await post(sidecar, "/publish", body)
    slow = await post(sidecar, "/publish", body, {"Origin": "http://localhost:9000"})
    assert fast == slow
    for bad in (b"{", b'{"topic":"t"}', b'{"topic":"forbidden.x","message":1}'):
        left = await post(sidecar, "/publish", bad)
        right = await post(sidecar, "/publish", bad, {"Origin": "http://localhost:9000"})
        for answer in (left[1], right[1]):
            answer.pop("request_id")
        assert left == right


async def test_requests_sent_ahead_are_answered_in_their_order(mesh, sidecar):
    import asyncio

    reader, writer = await asyncio.open_connection("127.0.0.1", sidecar.assembly.site.port)
    for number in range(50):
        body = b'{"topic":"t","message":%d}' % number
        writer.write(
            b"POST /publish HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s"
            % (len(body), body)
        )
    for number in range(50):
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        assert b'"offset":%d,' % number in await reader.readexactly(length)
    writer.close()
    assert mesh.log.values("t") == [b"%d" % number for number in range(50)]


@pytest.mark.parametrize("step", [1, 10, 100])
async def test_a_request_in_pieces_is_put_together(mesh, sidecar, step):
    import asyncio

    reader, writer = await asyncio.open_connection("127.0.0.1", sidecar.assembly.site.port)
    body = b'{"topic":"t","message":"%s"}' % (b"x" * 300)
    whole = b"POST /publish HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s" % (
        len(body),
        body,
    )
    for at in range(0, len(whole), step):
        writer.write(whole[at : at + step])
        await asyncio.sleep(0)
    assert (await reader.readline()).startswith(b"HTTP/1.1 200")
    writer.close()
    assert len(mesh.log.values("t")) == 1
