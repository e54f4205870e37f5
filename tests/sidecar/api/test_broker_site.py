"""The Go-Broker port with real sockets."""

import asyncio

import pytest

from hosting.units import Address


@pytest.fixture
async def wire(mesh):
    """Opens connections to the broker port of a sidecar that is connected."""
    sidecar = await mesh.sidecar(tcp=Address.parse("127.0.0.1:0"))
    site = next(each for each in sidecar.assembly.service._components if "broker" in each.name)
    writers = []

    async def connect():
        reader, writer = await asyncio.open_connection("127.0.0.1", site.port)
        writers.append(writer)
        return reader, writer

    connect.sidecar = sidecar
    yield connect
    for writer in writers:
        writer.close()


async def test_what_is_published_is_fetched_byte_for_byte(wire):
    reader, writer = await wire()
    writer.write(b'PUB t 16\r\n{"order_id":101}PUB t 3\r\nabc\nPUB t 0\n')
    assert [await reader.readline() for _ in range(3)] == [b"OK 0\r\n", b"OK 1\r\n", b"OK 2\r\n"]
    writer.write(b"FETCH t 0\r\nFETCH t 1\r\nFETCH t 2\r\n")
    wanted = b'MSG 0 16\r\n{"order_id":101}MSG 1 3\r\nabcMSG 2 0\r\n'
    assert await reader.readexactly(len(wanted)) == wanted


async def test_past_the_end_is_an_err_and_the_connection_goes_on(wire):
    reader, writer = await wire()
    writer.write(b"PUB t 1\r\nxFETCH t 99\r\nFETCH t 0\r\n")
    assert await reader.readline() == b"OK 0\r\n"
    assert (await reader.readline()).startswith(b"ERR unknown_message ")
    assert await reader.readexactly(10) == b"MSG 0 1\r\nx"


async def test_an_http_request_gets_one_err_and_does_nothing(mesh, wire):
    reader, writer = await wire()
    writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\nPUB t 1\r\nz")
    assert (await reader.readline()).startswith(b"ERR bad_command ")
    assert await reader.read() == b""
    assert mesh.log.frames == {}


@pytest.mark.parametrize(
    ("line", "code"), [(b"PUB _audit 1\r\nx", b"bad_topic"), (b"PUB forbidden.x 1\r\nx", b"denied")]
)
async def test_a_refusal_names_its_code_and_the_connection_goes_on(wire, line, code):
    reader, writer = await wire()
    writer.write(line + b"PUB t 1\r\nx")
    assert (await reader.readline()).startswith(b"ERR " + code + b" ")
    assert await reader.readline() == b"OK 0\r\n"


async def test_while_the_uplink_is_down_both_commands_fail_at_once(mesh, wire):
    reader, writer = await wire()
    await mesh.gatekeeper.listening.stop()
    await wire.sidecar.down()
    writer.write(b"PUB t 1\r\nxFETCH t 0\r\n")
    async with asyncio.timeout(60):
        assert (await reader.readline()).startswith(b"ERR uplink_down ")
        assert (await reader.readline()).startswith(b"ERR uplink_down ")
