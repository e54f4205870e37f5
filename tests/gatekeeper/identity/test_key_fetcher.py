"""Fetching keys from real HTTPS servers, most of which mean us no good."""

import asyncio
import ssl
import zlib
from dataclasses import replace

import pytest
from aiohttp import web

from gatekeeper.identity.key_fetcher import (
    DOCUMENT_BYTES_MAX,
    KeyFetchError,
    fetch_keys,
    tls_context,
)
from gatekeeper.identity.trust import IssuerSettings

OPENID = "/.well-known/openid-configuration"
OAUTH = "/.well-known/oauth-authorization-server"


def settings_for(server, **changed) -> IssuerSettings:
    return replace(IssuerSettings("corp", server.url, "urn:sidegate", ca=server.ca), **changed)


async def assert_fails(settings: IssuerSettings, names: str) -> None:
    with pytest.raises(KeyFetchError, match=names):
        await fetch_keys(settings)


async def test_openid_metadata_is_enough(issuer_server, mint) -> None:
    issuer_server.serve_keys(mint.jwks)
    keys = await fetch_keys(settings_for(issuer_server))
    assert [key.kid for key in keys.keys] == ["k1"]
    assert issuer_server.asked == [OPENID, "/jwks"]


async def test_oauth_metadata_is_asked_where_there_is_no_openid_metadata(
    issuer_server, mint
) -> None:
    issuer = f"{issuer_server.url}/realm"
    metadata = {"issuer": issuer, "jwks_uri": f"{issuer_server.url}/jwks"}
    issuer_server.serve_json(f"{OAUTH}/realm", metadata)
    issuer_server.serve_json("/jwks", mint.jwks)
    await fetch_keys(settings_for(issuer_server, issuer=issuer))
    assert issuer_server.asked == [f"/realm{OPENID}", f"{OAUTH}/realm", "/jwks"]


async def test_a_pinned_address_needs_no_metadata_and_may_be_on_another_host(
    issuer_server, new_issuer_server, mint
) -> None:
    elsewhere = await new_issuer_server()
    elsewhere.serve_json("/pinned", mint.jwks)
    await fetch_keys(settings_for(issuer_server, jwks_uri=f"{elsewhere.url}/pinned"))
    assert issuer_server.asked == []


async def test_metadata_that_points_to_another_host_is_not_followed(
    issuer_server, new_issuer_server, mint
) -> None:
    elsewhere = await new_issuer_server()
    elsewhere.serve_json("/jwks", mint.jwks)
    metadata = {"issuer": issuer_server.url, "jwks_uri": f"{elsewhere.url}/jwks"}
    issuer_server.serve_json(OPENID, metadata)
    await assert_fails(settings_for(issuer_server), "another host")
    assert elsewhere.asked == []


async def test_metadata_of_another_issuer_is_refused(issuer_server, mint) -> None:
    issuer_server.serve_keys(mint.jwks, issuer="https://idp.example")
    await assert_fails(settings_for(issuer_server), "is of the issuer")
    assert "/jwks" not in issuer_server.asked


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("path", [OPENID, "/jwks"])
async def test_redirects_are_refused(issuer_server, mint, status, path) -> None:
    issuer_server.serve_keys(mint.jwks)
    issuer_server.serve_json("/moved", mint.jwks)

    async def moved(request: web.Request) -> web.Response:
        return web.Response(status=status, headers={"Location": "/moved"})

    issuer_server.routes[path] = moved
    await assert_fails(settings_for(issuer_server), "redirects, which is refused")
    assert "/moved" not in issuer_server.asked


async def test_a_document_beyond_its_limit_is_cut_off(issuer_server, mint) -> None:
    sent = 0

    async def endless(request: web.Request) -> web.StreamResponse:
        nonlocal sent
        response = web.StreamResponse()
        await response.prepare(request)
        for _ in range(1000):
            await response.write(b" " * 65536)
            sent += 65536
        return response

    issuer_server.serve_keys(mint.jwks)
    issuer_server.routes["/jwks"] = endless
    await assert_fails(settings_for(issuer_server), f"more than {DOCUMENT_BYTES_MAX} bytes")
    assert sent < 1000 * 65536


async def test_a_compressed_answer_is_refused_unopened(issuer_server, mint) -> None:
    async def bomb(request: web.Request) -> web.Response:
        body = zlib.compress(b" " * 50_000_000)
        return web.Response(body=body, headers={"Content-Encoding": "deflate"})

    issuer_server.serve_keys(mint.jwks)
    issuer_server.routes["/jwks"] = bomb
    await assert_fails(settings_for(issuer_server), "compressed")


@pytest.mark.parametrize("status", [400, 404, 500, 503])
async def test_an_error_status_is_an_error(issuer_server, mint, status) -> None:
    issuer_server.serve_keys(mint.jwks)

    async def broken(request: web.Request) -> web.Response:
        return web.json_response(mint.jwks, status=status)

    issuer_server.routes["/jwks"] = broken
    await assert_fails(settings_for(issuer_server), f"answered {status}")


async def test_a_failing_server_is_not_asked_twice_for_metadata(issuer_server) -> None:
    async def broken(request: web.Request) -> web.Response:
        return web.Response(status=503)

    issuer_server.routes[OPENID] = broken
    await assert_fails(settings_for(issuer_server), "answered 503")
    assert issuer_server.asked == [OPENID]


async def test_no_metadata_anywhere_is_an_error(issuer_server) -> None:
    await assert_fails(settings_for(issuer_server), "no metadata.*404.*404")


async def test_keys_that_are_no_keys_are_an_error(issuer_server) -> None:
    issuer_server.serve_keys({"keys": []})
    await assert_fails(settings_for(issuer_server), "no key for ES256")


async def test_a_server_whose_ca_is_unknown_is_not_asked(new_issuer_server, mint) -> None:
    stranger = await new_issuer_server(trusted=False)
    stranger.serve_keys(mint.jwks)
    await assert_fails(settings_for(stranger), "can't be reached.*certificate")
    assert stranger.asked == []


async def test_a_server_with_another_name_in_its_certificate_is_not_asked(
    new_issuer_server, mint
) -> None:
    stranger = await new_issuer_server(host="other.example")
    stranger.serve_keys(mint.jwks)
    await assert_fails(settings_for(stranger), "can't be reached")
    assert stranger.asked == []


async def test_a_private_ca_is_not_trusted_without_being_named(issuer_server, mint) -> None:
    issuer_server.serve_keys(mint.jwks)
    await assert_fails(settings_for(issuer_server, ca=None), "can't be reached")


async def test_a_missing_ca_file_is_an_error_and_no_crash(issuer_server, tmp_path) -> None:
    await assert_fails(settings_for(issuer_server, ca=tmp_path / "gone.pem"), "can't be reached")


async def test_nobody_listening_is_an_error(issuer_server) -> None:
    settings = settings_for(issuer_server, issuer="https://localhost:1")
    await assert_fails(settings, "can't be reached")


async def test_a_server_that_never_answers_is_given_up(issuer_server) -> None:
    gone = asyncio.Event()

    async def silent(request: web.Request) -> web.Response:
        await gone.wait()
        return web.Response()

    issuer_server.routes[OPENID] = silent
    try:
        with pytest.raises(KeyFetchError, match=r"took more than 0\.2 s"):
            await fetch_keys(settings_for(issuer_server), seconds_max=0.2)
    finally:
        gone.set()


async def test_old_tls_is_refused(issuer_server, mint) -> None:
    context = tls_context(settings_for(issuer_server))
    assert context.minimum_version >= ssl.TLSVersion.TLSv1_2
    assert context.check_hostname
    assert context.verify_mode is ssl.CERT_REQUIRED


async def test_proxies_of_the_environment_are_ignored(issuer_server, mint, monkeypatch) -> None:
    issuer_server.serve_keys(mint.jwks)
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:1")
    assert (await fetch_keys(settings_for(issuer_server))).keys
