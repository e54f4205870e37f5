"""An address is listened at, or the message says what to change."""

import asyncio
import socket
import stat
import sys
from pathlib import Path
from typing import cast

import pytest

from hosting.listener import CannotListen, Listener, PortTaken, listen
from hosting.units import Address


class Farewell(asyncio.Protocol):
    """Says one word to whoever connects, and hangs up."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        cast(asyncio.WriteTransport, transport).write(b"bye")
        transport.close()


async def start(address: Address, **settings: int) -> Listener:
    return await listen(Farewell, address, setting="listen", backlog=8, **settings)


async def test_port_0_becomes_the_port_that_was_free() -> None:
    listener = await start(Address("127.0.0.1", 0))
    assert listener.address.port
    reader, writer = await asyncio.open_connection("127.0.0.1", listener.address.port)
    assert await reader.read() == b"bye"
    writer.close()
    listener.close()


async def test_a_taken_port_is_named_with_the_key_that_changes_it() -> None:
    first = await start(Address("127.0.0.1", 0))
    with pytest.raises(PortTaken, match=rf"^127.0.0.1:{first.address.port} .*set `listen` "):
        await start(first.address)
    first.close()


async def test_a_port_is_free_again_after_its_listener() -> None:
    first = await start(Address("127.0.0.1", 0))
    first.close()
    await asyncio.sleep(0)
    (await start(first.address)).close()


@pytest.mark.parametrize("host", ["203.0.113.1", "no-such-host.invalid"])
async def test_an_address_of_another_machine_can_not_be_listened_at(host: str) -> None:
    with pytest.raises(CannotListen, match=rf"^{host}:\d+ can't be listened at .*`listen`"):
        await start(Address(host, 1))


async def test_an_empty_host_is_every_interface() -> None:
    listener = await start(Address("", 0))
    assert "0.0.0.0" in [one.getsockname()[0] for one in listener.server.sockets]
    listener.close()


async def test_a_unix_socket_is_its_owners_unless_asked(tmp_path: Path) -> None:
    path = tmp_path / "run" / "x.sock"
    listener = await start(Address(path=path))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    listener.close()
    listener = await start(Address(path=path), socket_mode=0o660)
    assert stat.S_IMODE(path.stat().st_mode) == 0o660
    listener.close()


async def test_a_closed_unix_socket_leaves_no_file(tmp_path: Path) -> None:
    path = tmp_path / "x.sock"
    (await start(Address(path=path))).close()
    assert not path.exists()


async def test_the_socket_file_of_a_dead_process_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "x.sock"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    listener = await start(Address(path=path))
    reader, writer = await asyncio.open_unix_connection(str(path))
    assert await reader.read() == b"bye"
    writer.close()
    listener.close()


async def test_the_socket_of_a_live_process_is_never_taken_over(tmp_path: Path) -> None:
    path = tmp_path / "x.sock"
    first = await start(Address(path=path))
    with pytest.raises(PortTaken, match=r"x.sock is already in use"):
        await start(Address(path=path))
    reader, writer = await asyncio.open_unix_connection(str(path))
    assert await reader.read() == b"bye"
    writer.close()
    first.close()


@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux, to see a full queue")
async def test_a_live_socket_whose_queue_is_full_is_in_use_too(tmp_path: Path) -> None:
    path = tmp_path / "x.sock"
    with socket.socket(socket.AF_UNIX) as busy, socket.socket(socket.AF_UNIX) as waiting:
        busy.bind(str(path))
        busy.listen(0)
        waiting.connect(str(path))
        with pytest.raises(PortTaken):
            await start(Address(path=path))


async def test_a_plain_file_in_the_way_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "x.sock"
    path.write_text("precious")
    with pytest.raises(PortTaken):
        await start(Address(path=path))
    assert path.read_text() == "precious"


async def test_only_our_own_socket_file_is_removed(tmp_path: Path) -> None:
    path = tmp_path / "x.sock"
    listener = await start(Address(path=path))
    path.rename(tmp_path / "moved")
    path.write_text("another's")
    listener.close()
    assert path.read_text() == "another's"


async def test_a_path_too_long_for_a_socket_is_refused_readably(tmp_path: Path) -> None:
    with pytest.raises(CannotListen, match="too long"):
        await start(Address(path=tmp_path / ("x" * 200)))
