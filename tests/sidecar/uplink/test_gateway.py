"""Requests reach a gatekeeper that proved itself, once, or their sender is told why not."""

import asyncio

import pytest

from sidecar.uplink.gateway import Unreachable


@pytest.fixture
async def second(mesh, make_gatekeeper):
    """Another gatekeeper in front of the same log."""
    other = make_gatekeeper(mesh.log, mesh.authority)
    await other.listening.start()
    yield other
    await other.listening.stop()


async def test_an_answer_comes_back_whole_and_the_token_went_along(mesh, open_gateway):
    opened = await open_gateway()
    answer = await opened.gateway.ask("GET", "/v1/status")
    assert answer.status == 200
    assert answer.document() == {"service": "core"}
    assert mesh.gatekeeper.tokens == ["token-1"]


async def test_query_parameters_are_encoded(mesh, open_gateway):
    opened = await open_gateway()
    query = {"topic": "a&b c", "partition": "0", "offset": "0", "max_bytes": "1"}
    answer = await opened.gateway.ask("GET", "/v1/read", query=query)
    assert (answer.status, answer.document()["detail"]) == (404, "no topic a&b c")


async def test_requests_at_the_same_time_get_each_their_own_answer(mesh, open_gateway):
    opened = await open_gateway()
    for number in range(20):
        mesh.log.topic(f"t{number}")
    answers = await asyncio.gather(
        *(opened.gateway.ask("GET", f"/v1/topics/t{number}") for number in range(20))
    )
    assert [each.document()["name"] for each in answers] == [f"t{n}" for n in range(20)]


async def test_a_refused_token_is_replaced_and_the_request_sent_again_once(mesh, open_gateway):
    mesh.gatekeeper.refused_tokens = {"token-1"}
    opened = await open_gateway()
    assert (await opened.gateway.ask("GET", "/v1/status")).status == 200
    assert mesh.gatekeeper.tokens == ["token-1", "token-2"]
    mesh.gatekeeper.refused_tokens |= {f"token-{number}" for number in range(9)}
    assert (await opened.gateway.ask("GET", "/v1/status")).status == 401
    assert mesh.gatekeeper.tokens == ["token-1", "token-2", "token-2", "token-3"]


async def test_where_nobody_listens_the_next_gatekeeper_is_asked_and_stays_in_use(
    mesh, open_gateway, second
):
    await mesh.gatekeeper.listening.stop()
    opened = await open_gateway(mesh.gatekeeper.listening.url, second.listening.url)
    for _ in range(2):
        assert (await opened.gateway.ask("GET", "/v1/status")).status == 200
    assert opened.gateway.url == second.listening.url
    assert len(second.requests) == 2


async def test_where_no_gatekeeper_listens_nothing_was_sent(mesh, open_gateway):
    opened = await open_gateway()
    await mesh.gatekeeper.listening.stop()
    with pytest.raises(Unreachable) as caught:
        await opened.gateway.ask("GET", "/v1/status")
    assert not caught.value.sent


async def test_a_server_that_is_no_gatekeeper_gets_not_one_byte(
    mesh, open_gateway, make_gatekeeper
):
    impostor = make_gatekeeper(mesh.log, mesh.authority, "spiffe://test/impostor")
    await impostor.listening.start()
    opened = await open_gateway(impostor.listening.url)
    with pytest.raises(Unreachable, match="spiffe://test/impostor") as caught:
        await opened.gateway.ask("GET", "/v1/status")
    assert not caught.value.sent
    with pytest.raises(Unreachable) as caught:
        async with opened.gateway.stream():
            pytest.fail("a stream was opened at an impostor")
    assert not caught.value.sent
    assert impostor.requests == []
    assert impostor.tokens == []
    await impostor.listening.stop()


async def test_a_request_that_may_have_arrived_is_not_repeated_at_another_gatekeeper(
    mesh, open_gateway, second
):
    opened = await open_gateway(mesh.gatekeeper.listening.url, second.listening.url)
    mesh.gatekeeper.failures = ["drop"]
    with pytest.raises(Unreachable) as caught:
        await opened.gateway.append([])
    assert caught.value.sent
    assert second.requests == []
    # The next one goes elsewhere.
    assert (await opened.gateway.ask("GET", "/v1/status")).status == 200
    assert second.requests == [("GET", "/v1/status")]


async def test_an_answer_that_does_not_come_in_time_leaves_it_in_doubt(mesh, open_gateway):
    opened = await open_gateway()
    mesh.gatekeeper.hang = asyncio.Event()
    with pytest.raises(Unreachable, match="no answer within") as caught:
        await opened.gateway.ask("POST", "/v1/append", body=[], timeout_s=0.05)
    assert caught.value.sent
    mesh.gatekeeper.hang.set()


async def test_a_gatekeeper_that_goes_away_is_noticed_without_a_request(mesh, open_gateway):
    opened = await open_gateway()
    noticed = asyncio.Event()
    opened.gateway.on_lost = noticed.set
    await opened.gateway.ask("GET", "/v1/status")
    await mesh.gatekeeper.listening.stop()
    await noticed.wait()


async def test_a_stream_is_a_websocket_with_the_token(mesh, open_gateway):
    mesh.log.topic("t")
    opened = await open_gateway()
    async with opened.gateway.stream() as socket:
        await socket.send_json(
            {"type": "open", "topic": "t", "partitions": None, "from": "latest", "credit_bytes": 9}
        )
        assert (await socket.receive_json())["type"] == "opened"
    assert mesh.gatekeeper.tokens == ["token-1"]
    assert socket.closed


async def test_a_stream_with_a_refused_token_fails_and_the_next_one_has_another(mesh, open_gateway):
    mesh.gatekeeper.refused_tokens = {"token-1"}
    opened = await open_gateway()
    with pytest.raises(Unreachable, match="status 401"):
        async with opened.gateway.stream():
            pytest.fail("a stream was opened with a refused token")
    async with opened.gateway.stream():
        assert mesh.gatekeeper.tokens == ["token-1", "token-2"]


async def test_a_gatekeeper_without_its_core_refuses_streams_for_now(mesh, open_gateway):
    opened = await open_gateway()
    mesh.gatekeeper.core_down = True
    with pytest.raises(Unreachable, match="status 503"):
        async with opened.gateway.stream():
            pytest.fail("a stream was opened without a core")


async def test_after_a_change_of_the_certificate_requests_go_on(mesh, open_gateway):
    opened = await open_gateway()
    await opened.gateway.ask("GET", "/v1/status")
    async with opened.gateway.stream():
        certificate, key = mesh.authority.issue("fresh", "spiffe://test/app")
        (mesh.folder / "app.pem").write_bytes(certificate.read_bytes())
        (mesh.folder / "app.key").write_bytes(key.read_bytes())
        assert opened.contexts.poll()
        opened.credentials.refused("token-1")
        assert (await opened.credentials.wait()).tls.version == opened.contexts.version
        assert (await opened.gateway.ask("GET", "/v1/status")).status == 200
    async with opened.gateway.stream() as socket:
        assert not socket.closed
    assert mesh.gatekeeper.tokens[-1] == "token-2"
