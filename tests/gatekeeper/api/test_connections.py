"""Connections: counted under their owners, aged, and with the chain that the peer sent."""

import asyncio
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import uvloop

from gatekeeper.api.connections import Connections, TooManyConnections, peer_chain


class Wire:
    """A transport without a connection."""

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default

    def abort(self) -> None:
        raise AssertionError("the registry decides, it does not act")


def registry(**changed: Any) -> Connections:
    limits = {"connections_max": 3, "connections_per_principal_max": 2, "age_s_max": 60.0}
    return Connections(**{**limits, **changed})


def test_a_connection_is_counted_once_and_for_its_present_owner() -> None:
    connections = registry()
    connection = connections.opened(Wire(), 0.0)
    connections.claim(connection, "a")
    connections.claim(connection, "a")
    assert connections.held_by("a") == 1
    connections.claim(connection, "b")
    assert (connections.held_by("a"), connections.held_by("b")) == (0, 1)
    connections.closed(connection.transport)
    assert (connections.held_by("b"), len(connections)) == (0, 0)
    connections.closed(connection.transport)


def test_one_principal_has_so_many_and_no_more_and_gets_a_place_back() -> None:
    connections = registry()
    held = [connections.opened(Wire(), 0.0) for _ in range(3)]
    connections.claim(held[0], "a")
    connections.claim(held[1], "a")
    with pytest.raises(TooManyConnections, match="connections_per_principal_max"):
        connections.claim(held[2], "a")
    connections.claim(held[2], "b")
    connections.closed(held[0].transport)
    connections.claim(held[2], "a")
    assert connections.held_by("a") == 2
    assert connections.held_by("b") == 0


def test_a_connection_that_ended_meanwhile_is_not_counted() -> None:
    connections = registry()
    connection = connections.opened(Wire(), 0.0)
    connections.closed(connection.transport)
    connections.claim(connection, "a")
    assert connections.held_by("a") == 0


def test_the_registry_knows_when_it_is_full_and_whose_a_transport_is() -> None:
    connections = registry()
    held = [connections.opened(Wire(), 0.0) for _ in range(3)]
    assert connections.full
    assert connections.of(held[1].transport) is held[1]
    assert connections.of(Wire()) is None
    assert set(connections.all()) == set(held)


def test_age_is_from_the_handshake() -> None:
    connections = registry()
    connection = connections.opened(Wire(), 100.0)
    assert not connections.too_old(connection, 159.9)
    assert connections.too_old(connection, 160.0)


def test_without_tls_or_certificate_the_chain_is_empty() -> None:
    assert peer_chain(None) == ()
    connection = registry().opened(Wire(), 0.0)
    assert connection.claimed_id == ""
    assert len(connection.thumbprint) == 32


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_the_chain_has_the_intermediates_that_the_peer_sent(
    loop: Callable[[], asyncio.AbstractEventLoop], live_root: Any, tmp_path: Path
) -> None:
    below = live_root.below("intermediate")
    leaf = below.leaf("spiffe://example/app")
    server = live_root.leaf("spiffe://example/gatekeeper", hosts=["localhost"], eku=None)
    (tmp_path / "ca.pem").write_bytes(live_root.pem)
    (tmp_path / "server.pem").write_bytes(server.pem + server.key_pem)
    (tmp_path / "client.pem").write_bytes(leaf.pem + below.pem + leaf.key_pem)
    listening = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    listening.load_cert_chain(tmp_path / "server.pem")
    listening.load_verify_locations(tmp_path / "ca.pem")
    listening.verify_mode = ssl.CERT_REQUIRED
    calling = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    calling.load_verify_locations(tmp_path / "ca.pem")
    calling.load_cert_chain(tmp_path / "client.pem")

    async def exchange() -> Any:
        seen = asyncio.get_running_loop().create_future()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            connections = registry()
            seen.set_result(connections.opened(writer.transport, 0.0))
            writer.close()

        serving = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=listening)
        port = serving.sockets[0].getsockname()[1]
        _, writer = await asyncio.open_connection(
            "127.0.0.1", port, ssl=calling, server_hostname="localhost"
        )
        connection = await seen
        writer.close()
        serving.close()
        await serving.wait_closed()
        return connection

    with asyncio.Runner(loop_factory=loop) as runner:
        connection = runner.run(exchange())
    assert connection.chain == leaf.chain
    assert connection.thumbprint == leaf.thumbprint
    assert connection.claimed_id == "spiffe://example/app"
