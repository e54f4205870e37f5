"""A mesh made of bytes: a CA, an issuer and a gatekeeper with a log, on free ports.

They speak TLS, HTTP and the batch format for real and share no code with the sidecar. The fake
log keeps the wire's rules for producers, so that a lost or doubled message shows; it can be told
to fail in every way that the wire allows.
"""

import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.sidecar.fakes.authority import APP_ID, GATEKEEPER_ID, Authority
from tests.sidecar.fakes.gatekeeper import FakeGatekeeper
from tests.sidecar.fakes.hook import HookApp
from tests.sidecar.fakes.issuer import FakeIssuer
from tests.sidecar.fakes.log import FakeLog
from tests.sidecar.fakes.mesh import Mesh


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("ca"))


@pytest.fixture
def make_gatekeeper() -> type[FakeGatekeeper]:
    """For tests that want a second gatekeeper, or one that is none."""
    return FakeGatekeeper


@pytest.fixture
async def mesh(authority: Authority, tmp_path: Path) -> AsyncIterator[Mesh]:
    """An issuer and a gatekeeper that run; sidecars come from `mesh.sidecar()`."""
    folder_authority = authority
    issuer, log = FakeIssuer(folder_authority), FakeLog()
    gatekeeper = FakeGatekeeper(log, folder_authority)
    mesh = Mesh(folder_authority, issuer, log, gatekeeper, folder_authority.folder)
    mesh.folder = tmp_path
    authority.issue("app", APP_ID)
    for suffix in ("pem", "key"):
        target = tmp_path / f"app.{suffix}"
        target.write_bytes((authority.folder / f"app.{suffix}").read_bytes())
        target.chmod(0o600)
    await issuer.listening.start()
    await gatekeeper.listening.start()
    try:
        yield mesh
    finally:
        for running in mesh.sidecars:
            await running.stop()
        await gatekeeper.listening.stop()
        await issuer.listening.stop()


@pytest.fixture
async def hook() -> AsyncIterator[HookApp]:
    """A webhook that runs."""
    app = HookApp()
    await app.start()
    yield app
    await app.stop()


@pytest.fixture
async def open_gateway(mesh: Mesh) -> AsyncIterator[Callable[..., Any]]:
    """Gateways with credentials of their own, for the parts that stand between app and mesh."""
    from hosting.tls import ReloadingContexts, TlsFiles
    from sidecar.uplink.backoff import Backoff
    from sidecar.uplink.credentials import CredentialSource
    from sidecar.uplink.gateway import Gateway
    from sidecar.uplink.oauth import Client

    async with contextlib.AsyncExitStack() as stack:

        async def open_(*urls: str, connected: bool = True, **settings: Any) -> Any:
            config = mesh.config()
            files = TlsFiles(config.tls.certificate, config.tls.key, config.tls.ca)
            contexts = ReloadingContexts(files, environment="development")
            client = Client(config.oauth.issuer, "app", "tls_client_auth", "urn:x", None, None)
            source = CredentialSource(
                files,
                contexts,
                settings.pop("client", client),
                issuer_ca=mesh.authority.ca,
                backoff=Backoff(first_s=0.01, max_s=0.01),
                **settings,
            )
            gateway = Gateway(urls or config.gatekeepers, GATEKEEPER_ID, source)
            await source.start()
            stack.push_async_callback(source.stop)
            stack.push_async_callback(gateway.stop)
            if connected:
                await source.wait()
            return Opened(gateway, source, contexts)

        yield open_


@dataclass(frozen=True)
class Opened:
    """A gateway, where its tokens come from, and where its certificate does."""

    gateway: Any
    credentials: Any
    contexts: Any
