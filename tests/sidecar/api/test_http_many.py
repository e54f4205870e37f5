"""Batches and lines over HTTP."""

import io

import pytest


@pytest.fixture
async def sidecar(mesh):
    return await mesh.sidecar()


async def post(sidecar, path, data, **query):
    async with sidecar.client.post(f"{sidecar.base}{path}", data=data, params=query) as response:
        return response.status, await response.json(content_type=None)


@pytest.mark.parametrize(
    "body",
    [
        b'[{"message":1},{"message":{"a":2},"key":"k"},{"data_base64":"AAE="}]',
        b'{"message":1}\n{"message":{"a":2},"key":"k"}\n\n{"data_base64":"AAE="}\n',
    ],
)
async def test_a_batch_is_an_array_or_one_object_a_line_and_answers_with_ranges(
    mesh, sidecar, body
):
    status, answer = await post(sidecar, "/publish/t/batch", body)
    assert status == 200
    assert answer == {
        "count": 3,
        "durability": "committed",
        "partitions": [{"partition": 0, "first_offset": 0, "count": 3}],
    }
    assert mesh.log.values("t") == [b"1", b'{"a":2}', b"\x00\x01"]


@pytest.mark.parametrize(
    ("body", "index"),
    [
        (b'[{"message":1},{"mess":2}]', 1),
        (b'{"message":1}\n{"message":2,"topic":"u"}', 1),
        (b'[{"message":1},{"message":2},7]', 2),
    ],
)
async def test_one_bad_message_names_its_index_and_publishes_none(mesh, sidecar, body, index):
    status, problem = await post(sidecar, "/publish/t/batch", body)
    assert (status, problem["index"]) == (400, index)
    assert mesh.log.frames == {}


@pytest.mark.parametrize("body", [b"", b"[]", b"[", b"\n\n"])
async def test_an_empty_or_broken_batch_is_400(sidecar, body):
    assert (await post(sidecar, "/publish/t/batch", body))[0] == 400


async def test_each_line_is_a_message_verbatim(mesh, sidecar):
    status, answer = await post(sidecar, "/publish/t/lines", b'{"a":1}\nplain text\r\n\nlast')
    assert status == 200
    assert answer["count"] == 4
    assert mesh.log.values("t") == [b'{"a":1}', b"plain text\r", b"", b"last"]


async def test_an_empty_body_publishes_nothing(mesh, sidecar):
    status, answer = await post(sidecar, "/publish/t/lines", b"")
    assert (status, answer["count"]) == (200, 0)


async def test_a_streamed_body_of_any_length_goes_through_in_order(mesh, sidecar):
    async def body():
        for number in range(0, 200_000, 1000):
            yield b"".join(b"%d\n" % each for each in range(number, number + 1000))

    status, answer = await post(sidecar, "/publish/t/lines", body())
    assert (status, answer["count"]) == (200, 200_000)
    assert mesh.log.values("t") == [b"%d" % number for number in range(200_000)]


async def test_a_refusal_reports_what_was_committed_and_the_line_that_failed(mesh, sidecar):
    lines = [b"%0500d" % number for number in range(3000)]

    async def body():
        yield b"\n".join(lines[:1200]) + b"\n"
        # The first block is committed before the policy changes.
        await sidecar.until(lambda: bool(mesh.log.values("t")))
        mesh.gatekeeper.failures += ["denied"] * 10
        yield b"\n".join(lines[1200:])

    status, problem = await post(sidecar, "/publish/t/lines", body())
    committed = mesh.log.values("t")
    assert (status, problem["code"]) == (403, "denied")
    assert 0 < len(committed) < 3000
    assert committed == lines[: len(committed)]
    assert problem["published"]["count"] == len(committed)
    assert problem["line"] == len(committed)


async def test_a_line_over_the_limit_is_413_and_what_came_before_it_is_told(mesh, sidecar):
    body = b"a\n" * 400_000 + b"x" * (2 << 20) + b"\nb\n"
    status, problem = await post(sidecar, "/publish/t/lines", io.BytesIO(body))
    assert status == 413
    assert problem["line"] == 400_000
    assert problem["published"]["count"] == len(mesh.log.values("t"))
    assert problem["published"]["count"] <= 400_000


async def test_round_robin_spreads_lines_over_all_partitions(mesh, sidecar):
    mesh.log.topic("t", partitions=3, strategy="round_robin")
    status, answer = await post(sidecar, "/publish/t/lines", b"0\n1\n2\n3\n4\n5\n6\n")
    assert (status, answer["count"]) == (200, 7)
    found = [mesh.log.values("t", each) for each in range(3)]
    assert sorted(map(len, found)) == [2, 2, 3]
    assert sorted(int(value) for values in found for value in values) == list(range(7))


async def test_lines_are_spooled_while_the_uplink_is_down(mesh, sidecar):
    await mesh.gatekeeper.listening.stop()
    await sidecar.down()
    status, answer = await post(sidecar, "/publish/t/lines", b"1\n2\n")
    assert (status, answer["durability"], answer["count"]) == (202, "spooled", 2)
    assert (await post(sidecar, "/publish/t/lines", b"3\n", ack="core"))[0] == 503
    await mesh.gatekeeper.listening.start()
    await sidecar.until(lambda: sidecar.assembly.outbox.records == 0)
    assert mesh.log.values("t") == [b"1", b"2"]


@pytest.mark.parametrize("path", ["/publish/_audit/lines", "/publish/_audit/batch", "/publish/_a"])
async def test_the_systems_topics_are_not_an_apps_to_write(sidecar, path):
    assert (await post(sidecar, path, b'{"message":1}'))[0] == 400
