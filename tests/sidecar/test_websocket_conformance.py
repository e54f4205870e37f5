"""The sidecar's WebSockets at the level of bytes, by RFC 6455: the cases of Autobahn's test suite.

That suite itself runs on Python 2 alone, so its cases for servers (sections 1 to 7) are written out
here, against the echo mode of a subscriber's socket, and those that need no echo also against
`/publish/{topic}/stream`.
"""

import asyncio
import base64
import hashlib
import os
import struct

import pytest

CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0x0, 0x1, 0x2, 0x8, 0x9, 0xA
FIN = 0x80
ANSWER_S_MAX = 20.0
GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


class Peer:
    """A client that sends exactly the bytes it is told to."""

    def __init__(self, reader, writer):
        self._reader, self._writer = reader, writer

    @classmethod
    async def open(cls, sidecar, path):
        reader, writer = await asyncio.open_connection("127.0.0.1", sidecar.assembly.site.port)
        key = base64.b64encode(os.urandom(16))
        writer.write(
            b"GET %s HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Key: %s\r\nSec-WebSocket-Version: 13\r\n\r\n" % (path.encode(), key)
        )
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 101"), head
        expected = base64.b64encode(hashlib.sha1(key + GUID).digest())  # noqa: S324 - the RFC's
        assert b"sec-websocket-accept: " + expected.lower() in head.lower()
        assert b"permessage-deflate" not in head
        return cls(reader, writer)

    def frame(self, opcode, payload=b"", *, fin=True, rsv=0, masked=True, length=None):
        first = (FIN if fin else 0) | rsv << 4 | opcode
        size = len(payload) if length is None else length
        mask_bit = 0x80 if masked else 0
        if size < 126:
            head = struct.pack("!BB", first, mask_bit | size)
        elif size < 65536:
            head = struct.pack("!BBH", first, mask_bit | 126, size)
        else:
            head = struct.pack("!BBQ", first, mask_bit | 127, size)
        if not masked:
            return head + payload
        mask = os.urandom(4)
        return head + mask + bytes(b ^ mask[i & 3] for i, b in enumerate(payload))

    def send(self, *frames):
        self._writer.write(b"".join(frames))

    async def send_slowly(self, data, piece):
        for at in range(0, len(data), piece):
            self._writer.write(data[at : at + piece])
            await self._writer.drain()
            await asyncio.sleep(0)

    async def receive(self):
        """The next frame as opcode and payload; servers send whole, unmasked ones."""
        first, second = await self._reader.readexactly(2)
        assert first & 0x70 == 0, "reserved bits"
        assert second & 0x80 == 0, "masked by a server"
        size = second & 0x7F
        if size == 126:
            (size,) = struct.unpack("!H", await self._reader.readexactly(2))
        elif size == 127:
            (size,) = struct.unpack("!Q", await self._reader.readexactly(8))
        assert first & FIN, "fragmented"
        return first & 0x0F, await self._reader.readexactly(size)

    async def close_code(self):
        """Read on to the close frame, and to the end of the connection behind it."""
        code = None
        try:
            async with asyncio.timeout(ANSWER_S_MAX):
                while True:
                    opcode, payload = await self.receive()
                    if opcode == CLOSE:
                        code = struct.unpack("!H", payload[:2])[0] if payload else 1005
        except (asyncio.IncompleteReadError, ConnectionError):
            return code

    def shut(self):
        self._writer.close()


ECHO = "/subscribe/echoes?echo=true"
PATHS = [ECHO, "/publish/echoes/stream", "/subscribe/echoes"]
WRONG_OPCODES = [3, 4, 5, 6, 7, 11, 12, 13, 14, 15]
GOOD_CODES = [1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 3000, 3999, 4000, 4999]
BAD_CODES = [0, 999, 1004, 1005, 1006, 1016, 1100, 2000, 2999, 5000, 65535]
TEXTS = [
    "Hello-µ@ßöäüàá-UTF-8!!", "κόσμε", "\x00", "\u0080", "\u0800", "\U00010000", "\x7f", "\u07ff",
    "\uffff", "\U0010ffff", "\ud7ff", "\ue000", "\ufffd", "\ufffe",
]  # fmt: skip
NO_UTF_8 = [
    "cebae1bdb9cf83cebcceb5eda080656469746564", "f888808080", "f7bfbfbf", "f4908080", "eda080",
    "edbfbf", "80", "c0af", "e080af", "f08080af", "fe", "ff", "c3", "e282", "48656c6c6ffb",
]  # fmt: skip


@pytest.fixture
async def sidecar(mesh):
    return await mesh.sidecar()


@pytest.fixture
async def connect(sidecar):
    """Connections; a test has one for each of its cases, for a sidecar of its own is dear."""
    peers = []

    async def connect_(path=ECHO):
        peers.append(await Peer.open(sidecar, path))
        return peers[-1]

    yield connect_
    for peer in peers:
        peer.shut()


async def failures(connect, path, cases):
    """The cases whose connection was not closed with the code that they expect."""
    wrong = []
    for number, (make, codes) in enumerate(cases):
        peer = await connect(path)
        peer.send(*make(peer))
        code = await peer.close_code()
        if code not in codes:
            wrong.append((number, code, codes))
    return wrong


async def test_1_messages_of_every_length_come_back(connect):
    echo = await connect()
    for length in (0, 1, 125, 126, 127, 128, 65535, 65536):
        echo.send(echo.frame(TEXT, b"*" * length))
        assert await echo.receive() == (TEXT, b"*" * length)
        echo.send(echo.frame(BINARY, b"\xfe" * length))
        assert await echo.receive() == (BINARY, b"\xfe" * length)


async def test_1_a_message_may_arrive_in_any_pieces(connect):
    echo = await connect()
    for piece in (1, 997):
        await echo.send_slowly(echo.frame(BINARY, b"\xfe" * 3000), piece)
        assert await echo.receive() == (BINARY, b"\xfe" * 3000)


@pytest.mark.parametrize("path", PATHS)
async def test_2_pings_are_answered_with_their_payload_in_order(connect, path):
    peer = await connect(path)
    for payload in (b"", b"Hello", b"\x00\xff\xfe", b"\xfe" * 125):
        peer.send(peer.frame(PONG, b"unsolicited"), peer.frame(PING, payload))
        assert await peer.receive() == (PONG, payload)
    await peer.send_slowly(b"".join(peer.frame(PING, b"%d" % n) for n in range(10)), 1)
    assert [await peer.receive() for _ in range(10)] == [(PONG, b"%d" % n) for n in range(10)]


@pytest.mark.parametrize("path", PATHS)
async def test_2_to_5_what_the_framing_forbids_fails_the_connection(connect, path):
    cases = [
        (lambda peer: [peer.frame(PING, b"\xfe" * 126)], {1002}),
        *(
            (lambda peer, rsv=rsv: [peer.frame(TEXT, b"Hello", rsv=rsv)], {1002})
            for rsv in range(1, 8)
        ),
        *((lambda peer, op=op: [peer.frame(op)], {1002}) for op in WRONG_OPCODES),
        *((lambda peer, op=op: [peer.frame(op, fin=False)], {1002}) for op in (PING, PONG, CLOSE)),
        (lambda peer: [peer.frame(CONTINUATION, b"x")], {1002}),
        (lambda peer: [peer.frame(CONTINUATION, b"x", fin=False)], {1002}),
        (lambda peer: [peer.frame(TEXT, b"1", fin=False), peer.frame(TEXT, b"2")], {1002}),
        (lambda peer: [peer.frame(TEXT, b"1", fin=False), peer.frame(BINARY, b"2")], {1002}),
    ]
    assert await failures(connect, path, cases) == []


async def test_5_fragments_become_one_message_with_pings_between(connect):
    echo = await connect()
    for kind in (TEXT, BINARY):
        echo.send(
            echo.frame(kind, b"one ", fin=False),
            echo.frame(PING, b"a"),
            echo.frame(CONTINUATION, b"two ", fin=False),
            echo.frame(PING, b"b"),
            echo.frame(CONTINUATION, b""),
        )
        assert await echo.receive() == (PONG, b"a")
        assert await echo.receive() == (PONG, b"b")
        assert await echo.receive() == (kind, b"one two ")


async def test_6_text_is_utf_8_also_where_it_is_cut_within_a_character(connect):
    echo = await connect()
    for text in TEXTS:
        data = text.encode()
        echo.send(echo.frame(TEXT, data))
        assert await echo.receive() == (TEXT, data)
        pieces = [data[at : at + 1] for at in range(len(data))]
        echo.send(
            echo.frame(TEXT, b"", fin=False),
            *(echo.frame(CONTINUATION, piece, fin=False) for piece in pieces),
            echo.frame(CONTINUATION, b""),
        )
        assert await echo.receive() == (TEXT, data)


@pytest.mark.parametrize("path", PATHS)
async def test_6_what_is_no_utf_8_fails_the_connection(connect, path):
    def fragments(peer):
        return [
            peer.frame(TEXT, bytes.fromhex("cebae1bdb9cf83cebcceb5"), fin=False),
            peer.frame(CONTINUATION, bytes.fromhex("f4908080"), fin=False),
            peer.frame(CONTINUATION, b"edited"),
        ]

    cases = [
        (lambda peer, data=data: [peer.frame(TEXT, bytes.fromhex(data))], {1007})
        for data in NO_UTF_8
    ]
    assert await failures(connect, path, [*cases, (fragments, {1007})]) == []


@pytest.mark.parametrize("path", PATHS)
async def test_7_closes_are_answered_and_what_they_may_not_be_fails(connect, path):
    def close(code, reason=b""):
        return lambda peer: [peer.frame(CLOSE, struct.pack("!H", code) + reason)]

    cases = [
        (close(1000, b"bye"), {1000}),
        (close(1000, b"*" * 123), {1000}),
        (lambda peer: [peer.frame(CLOSE)], {1000, 1005}),
        (lambda peer: [peer.frame(CLOSE, b"\x03")], {1002}),
        (close(1000, b"*" * 124), {1002}),
        (close(1000, bytes.fromhex("cebae1bdb9eda080")), {1002, 1007}),
        *((close(code), {code, 1000}) for code in GOOD_CODES),
        *((close(code), {1002}) for code in BAD_CODES),
    ]
    assert await failures(connect, path, cases) == []


async def test_7_nothing_is_done_after_a_close(sidecar, connect):
    echo = await connect()
    echo.send(
        echo.frame(CLOSE, struct.pack("!H", 1000)), echo.frame(TEXT, b"late"), echo.frame(PING)
    )
    assert await echo.close_code() == 1000
    _, page = await sidecar.get("/messages/echoes")
    assert page.get("messages", []) == []


@pytest.mark.parametrize("path", PATHS)
async def test_masks_and_limits(connect, path):
    piece = b"x" * 200_000
    cases = [
        (lambda peer: [peer.frame(TEXT, b"Hello", masked=False)], {1002}),
        (lambda peer: [peer.frame(BINARY, b"x" * 100, length=1 << 31)], {1009}),
        (
            lambda peer: [
                peer.frame(TEXT, piece, fin=False),
                *(peer.frame(CONTINUATION, piece, fin=False) for _ in range(8)),
            ],
            {1009},
        ),
    ]
    assert await failures(connect, path, cases) == []
