"""How the core is reached: over mTLS with a check of its SPIFFE id, or through a Unix socket."""

from pathlib import Path
from urllib.parse import urlsplit

import aiohttp

from gatekeeper.config import CoreConfig
from gatekeeper.core.core_requests import Dialer, TcpDialer, UnixDialer
from gatekeeper.core.upstream import CoreClient
from hosting.connector import SpiffeConnector
from hosting.tls import ReloadingContexts


class CoreConnectors:
    """Connectors that verify the core's SPIFFE id, renewed with the gatekeeper's certificate."""

    def __init__(self, contexts: ReloadingContexts, spiffe_id: str) -> None:
        self._contexts = contexts
        self._spiffe_id = spiffe_id

    @property
    def version(self) -> int:
        """The certificate's."""
        return self._contexts.version

    def make(self, limit: int) -> aiohttp.BaseConnector:
        """A connector of at most `limit` connections; 0 is without limit."""
        return SpiffeConnector(self._contexts.client.context, [self._spiffe_id], limit=limit)


class SocketConnectors:
    """Connectors to a core on the same machine. Its file's owner and mode say who it is."""

    version = 1

    def __init__(self, path: Path) -> None:
        self._path = path

    def make(self, limit: int) -> aiohttp.BaseConnector:
        """A connector of at most `limit` connections; 0 is without limit."""
        return aiohttp.UnixConnector(path=str(self._path), limit=limit)


def core_client(core: CoreConfig, contexts: ReloadingContexts) -> CoreClient:
    """The client of the core that the configuration names."""
    connectors: CoreConnectors | SocketConnectors
    dialer: Dialer
    if core.unix is not None:
        url, connectors = "http://core", SocketConnectors(core.unix)
        dialer = UnixDialer(core.unix)
    elif core.url is not None and core.spiffe_id is not None:
        url, connectors = core.url, CoreConnectors(contexts, core.spiffe_id)
        where = urlsplit(url)
        dialer = TcpDialer(contexts, where.hostname or "", where.port or 443, core.spiffe_id)
    else:
        raise ValueError("core: give url and spiffe_id, or unix")
    return CoreClient(
        url,
        connectors,
        dialer,
        connections_max=core.connections_max,
        connect_timeout_s=core.connect_timeout,
        answer_timeout_s=core.answer_timeout,
    )
