"""How the core is reached: by identity, or by a socket's file."""

from pathlib import Path
from typing import Any

import aiohttp
import pytest

from gatekeeper.config import CoreConfig
from gatekeeper.core.core_connectors import CoreConnectors, SocketConnectors, core_client
from hosting.connector import SpiffeConnector


async def test_over_tls_the_connector_checks_the_cores_identity(mesh: Any) -> None:
    contexts = mesh.gatekeeper.contexts
    connectors = CoreConnectors(contexts, "spiffe://example/core")
    assert connectors.version == contexts.version
    connector = connectors.make(3)
    assert isinstance(connector, SpiffeConnector)
    assert connector.limit == 3
    await connector.close()


async def test_a_socket_is_reached_by_its_path(tmp_path: Path) -> None:
    connector = SocketConnectors(tmp_path / "core.sock").make(0)
    assert isinstance(connector, aiohttp.UnixConnector)
    assert connector.path == str(tmp_path / "core.sock")
    await connector.close()


async def test_a_configuration_without_a_core_makes_no_client(mesh: Any) -> None:
    with pytest.raises(ValueError, match="core: give url"):
        core_client(CoreConfig(), mesh.gatekeeper.contexts)
