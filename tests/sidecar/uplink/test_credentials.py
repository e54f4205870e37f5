"""Certificate and token stay a pair, and stay fresh, whatever the issuer does."""

import asyncio
import logging
from dataclasses import replace

import pytest
from aiohttp import web

from sidecar.uplink.credentials import ANSWER_BYTES_MAX
from sidecar.uplink.oauth import Client


async def until(what):
    """Wait for a condition; the test's timeout is the limit."""
    while not what():  # noqa: ASYNC110 - the state belongs to the source
        await asyncio.sleep(0.005)


def client_of(url):
    return Client(url, "app", "tls_client_auth", None, None, None)


@pytest.fixture
async def odd_issuer(mesh):
    """Issuers that answer their metadata as a handler says."""
    running = []

    async def start(handler):
        app = web.Application()
        app.router.add_route("*", "/{any:.*}", handler)
        context = mesh.authority.server_context(
            mesh.authority.issue("odd-issuer", "spiffe://test/issuer")
        )
        listening = type(mesh.issuer.listening)(app, context)
        await listening.start()
        running.append(listening)
        return client_of(listening.url)

    yield start
    for listening in running:
        await listening.stop()


async def test_the_first_token_is_fetched_with_the_certificate_at_the_discovered_endpoint(
    mesh, open_gateway
):
    opened = await open_gateway()
    pair = opened.credentials.current
    assert pair.token == "token-1"
    assert pair.tls is opened.contexts.client
    assert opened.credentials.error is None
    assert mesh.issuer.forms[0]["grant_type"] == "client_credentials"
    assert mesh.issuer.forms[0]["client_id"] == "app"


async def test_an_issuer_that_is_not_there_is_tried_again_until_it_is(mesh, open_gateway):
    await mesh.issuer.listening.stop()
    opened = await open_gateway(connected=False)
    await until(lambda: mesh.issuer.listening.url in opened.credentials.error)
    assert opened.credentials.current is None
    waiting = asyncio.create_task(opened.credentials.wait())
    await mesh.issuer.listening.start()
    assert (await waiting).token == "token-1"


async def test_an_issuer_that_refuses_is_quoted(mesh, open_gateway):
    mesh.issuer.down = True
    opened = await open_gateway(connected=False)
    await until(lambda: "temporarily_unavailable" in opened.credentials.error)
    mesh.issuer.down = False
    assert (await opened.credentials.wait()).token == "token-1"


async def test_a_refused_token_is_replaced_at_once_and_an_older_one_changes_nothing(open_gateway):
    opened = await open_gateway()
    opened.credentials.refused("some older token")
    assert opened.credentials.current.token == "token-1"
    opened.credentials.refused("token-1")
    assert opened.credentials.current is None
    assert (await opened.credentials.wait()).token == "token-2"


async def test_a_token_whose_life_is_over_is_not_used(mesh, open_gateway):
    now = [1000.0]
    mesh.issuer.life_s = 3600
    opened = await open_gateway(clock=lambda: now[0])
    assert opened.credentials.current is not None
    mesh.issuer.down = True
    now[0] += 3600
    assert opened.credentials.current is None


async def test_a_token_is_renewed_before_its_end(mesh, open_gateway):
    mesh.issuer.life_s = 1
    opened = await open_gateway()
    await until(lambda: mesh.issuer.issued >= 2)
    await until(lambda: opened.credentials.current.token != "token-1")


async def test_a_token_in_use_stays_in_use_while_the_issuer_is_away(mesh, open_gateway):
    now = [1000.0]
    opened = await open_gateway(clock=lambda: now[0])
    mesh.issuer.down = True
    now[0] += 0.9 * mesh.issuer.life_s
    await until(lambda: opened.credentials.error is not None)
    assert opened.credentials.current.token == "token-1"


async def test_a_new_certificate_comes_into_use_together_with_a_token_for_it(mesh, open_gateway):
    opened = await open_gateway()
    before = opened.credentials.current
    certificate, key = mesh.authority.issue("fresh", "spiffe://test/app")
    (mesh.folder / "app.pem").write_bytes(certificate.read_bytes())
    (mesh.folder / "app.key").write_bytes(key.read_bytes())
    assert opened.contexts.poll()
    assert opened.credentials.current is before
    await until(lambda: opened.credentials.current is not before)
    after = opened.credentials.current
    assert after.tls.version == before.tls.version + 1
    assert after.token == "token-2"


async def test_whoever_answers_under_another_name_is_not_the_issuer(odd_issuer, open_gateway):
    async def lie(request):
        return web.json_response(
            {"issuer": "https://other.example", "token_endpoint": "https://other.example/token"}
        )

    opened = await open_gateway(connected=False, client=await odd_issuer(lie))
    await until(lambda: "https://other.example" in opened.credentials.error)
    assert opened.credentials.current is None


async def test_an_issuer_without_metadata_is_named_with_its_status(odd_issuer, open_gateway):
    async def nothing(request):
        raise web.HTTPNotFound

    opened = await open_gateway(connected=False, client=await odd_issuer(nothing))
    await until(lambda: "metadata with status 404" in opened.credentials.error)


async def test_an_endless_answer_is_cut_off(odd_issuer, open_gateway):
    async def talk(request):
        return web.Response(body=b" " * (ANSWER_BYTES_MAX + 1), content_type="application/json")

    opened = await open_gateway(connected=False, client=await odd_issuer(talk))
    await until(lambda: f"over {ANSWER_BYTES_MAX} bytes" in opened.credentials.error)


async def test_a_redirect_is_not_followed_with_the_clients_proof(odd_issuer, open_gateway, mesh):
    async def redirect(request):
        raise web.HTTPFound(f"{mesh.issuer.listening.url}/.well-known/oauth-authorization-server")

    opened = await open_gateway(connected=False, client=await odd_issuer(redirect))
    await until(lambda: "status 302" in opened.credentials.error)
    assert mesh.issuer.forms == []


async def test_no_token_reaches_a_log_line(open_gateway, caplog):
    caplog.set_level(logging.DEBUG)
    opened = await open_gateway()
    opened.credentials.refused("token-1")
    await opened.credentials.wait()
    assert "access token received" in caplog.text
    for record in caplog.records:
        assert "token-1" not in str(vars(record))
        assert "token-2" not in str(vars(record))


async def test_a_life_is_part_of_the_pair(open_gateway, mesh):
    opened = await open_gateway()
    life = opened.credentials.current.life
    assert life.expires_at - life.received_at == pytest.approx(mesh.issuer.life_s)
    assert replace(life, expires_at=0.0).is_over(1.0)
