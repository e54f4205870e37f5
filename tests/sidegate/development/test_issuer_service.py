"""The issuer over real TLS: who gets in, and what is said on the wire."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import pytest

from hosting.config import load_config
from hosting.lifecycle import StartError
from sidegate.development import addresses, ca
from sidegate.development.addresses import ISSUER
from sidegate.development.issuer_config import IssuerConfig
from sidegate.development.issuer_service import METADATA_PATHS, build
from sidegate.development.state import State

FORM = {"grant_type": "client_credentials", "client_id": "dev-app"}


@dataclass(frozen=True)
class Served:
    url: str
    state: State

    def context(self, certificate: str | None) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=self.state.ca)
        if certificate is not None:
            certs = self.state.root / "certs"
            context.load_cert_chain(certs / f"{certificate}.pem", certs / f"{certificate}.key")
        return context


@pytest.fixture
def config(tmp_path: Path) -> IssuerConfig:
    state = State(tmp_path)
    state.make_folders()
    state.make_keys()
    state.make_certificates(ca.utc_now())
    state.make_documents(addresses.free_addresses())
    return load_config(IssuerConfig, service="issuer", path=state.config("issuer"), environ={})


@pytest.fixture
async def served(config: IssuerConfig) -> AsyncIterator[Served]:
    service = build(config)
    running = asyncio.create_task(service.run())
    while not service.readiness().ready:  # noqa: ASYNC110 - as its health page is asked
        await asyncio.sleep(0.01)
    yield Served(config.issuer, State(config.keys.parents[1]))
    service.ask_to_stop()
    assert await running == 0


async def post(
    served: Served, certificate: str | None, form: dict[str, str]
) -> tuple[int, dict[str, object]]:
    async with (
        aiohttp.ClientSession() as session,
        session.post(served.url + "/token", data=form, ssl=served.context(certificate)) as response,
    ):
        return response.status, await response.json()


async def test_the_app_gets_a_token_over_mtls(served: Served) -> None:
    status, document = await post(served, "sidecar", FORM)
    assert status == 200
    assert document["token_type"] == "Bearer"


async def test_a_certificate_of_another_service_gets_none(served: Served) -> None:
    assert await post(served, "gatekeeper", FORM) == (
        400,
        {
            "error": "invalid_client",
            "error_description": "The certificate is not the one of this client.",
        },
    )


async def test_without_a_certificate_there_is_metadata_but_no_token(served: Served) -> None:
    status, document = await post(served, None, FORM)
    assert (status, document["error"]) == (400, "invalid_client")
    async with aiohttp.ClientSession() as session:
        for path in METADATA_PATHS:
            async with session.get(served.url + path, ssl=served.context(None)) as response:
                metadata = await response.json()
                assert metadata["issuer"] == served.url
        async with session.get(metadata["jwks_uri"], ssl=served.context(None)) as response:
            assert [set(key) & {"d"} for key in (await response.json())["keys"]] == [set()]


async def test_a_certificate_of_a_foreign_ca_is_refused_at_the_door(
    served: Served, tmp_path: Path
) -> None:
    foreign = State(tmp_path / "foreign")
    foreign.make_folders()
    foreign.make_certificates(ca.utc_now())
    context = served.context(None)
    certs = foreign.root / "certs"
    context.load_cert_chain(certs / "sidecar.pem", certs / "sidecar.key")
    async with aiohttp.ClientSession() as session:
        with pytest.raises(aiohttp.ClientError):
            async with session.post(served.url + "/token", data=FORM, ssl=context):
                pytest.fail("let in")


async def test_tls_1_2_is_refused(served: Served) -> None:
    context = served.context("sidecar")
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    async with aiohttp.ClientSession() as session:
        with pytest.raises(aiohttp.ClientError):
            async with session.get(served.url + "/jwks", ssl=context):
                pytest.fail("let in")


async def test_a_body_that_is_no_form_is_an_invalid_request(served: Served) -> None:
    async with (
        aiohttp.ClientSession() as session,
        session.post(served.url + "/token", json=FORM, ssl=served.context("sidecar")) as response,
    ):
        assert response.status == 400
        assert (await response.json())["error"] == "invalid_request"
        assert response.headers["Cache-Control"] == "no-store"


async def test_keys_that_can_not_be_read_are_named(config: IssuerConfig) -> None:
    config.keys.write_text(json.dumps({"keys": [{"kty": "nonsense"}]}))
    with pytest.raises(StartError, match=r"issuer\.json"):
        build(config)
    config.keys.unlink()
    with pytest.raises(StartError, match=r"issuer\.json"):
        build(config)


def test_it_listens_where_its_url_says(config: IssuerConfig) -> None:
    assert config.issuer == f"https://{config.listen}"
    assert ISSUER.service == "issuer"
