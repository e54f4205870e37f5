"""The Go-Broker port: one TCP connection, commands answered one after the other.

For apps that want a socket and two words. Partition 0, `ack=core`. A component; the protocol is in
`broker_protocol.py`. Bytes that are no command end the connection, so an HTTP request that a
browser was lured to send here does nothing.
"""

import asyncio
import contextlib
import logging
import time
from typing import Final

from hosting.listener import Listener, listen
from hosting.units import Address
from log_format.errors import BadField
from log_format.topic import check_any_topic, check_topic
from sidecar.api.broker_protocol import BadLine, BrokerParser, Fetch, Pub, err, msg, ok
from sidecar.api.json_text import is_json
from sidecar.api.problems import PROBLEMS
from sidecar.delivery.reader import Reader
from sidecar.errors import SidecarError
from sidecar.publish.batch import Ack, Committed
from sidecar.publish.message import OCTETS, Message
from sidecar.publish.publisher import Publisher

log = logging.getLogger("sidegate.sidecar")

READ_BYTES: Final = 64 * 1024
IDLE_S: Final = 600.0
"""A silent connection is closed after this; clients of this protocol keep theirs open."""
PARTITION: Final = 0
BACKLOG: Final = 128


class BrokerSite:
    """Listens and serves. `start`, `drain` and `stop` are called once each."""

    name = "broker port"

    def __init__(
        self,
        address: Address,
        publisher: Publisher,
        reader: Reader,
        *,
        message_bytes_max: int,
        timeout_s: float,
        connections_max: int,
    ) -> None:
        self._address = address
        self._publisher = publisher
        self._reader = reader
        self._message_bytes_max = message_bytes_max
        self._timeout_s = timeout_s
        self._connections_max = connections_max
        self._listener: Listener | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self._draining = asyncio.Event()

    @property
    def port(self) -> int:
        """The port that is listened at, also where the address says port 0."""
        address = self._address if self._listener is None else self._listener.address
        if address.port is None:
            raise RuntimeError(f"{address} has no port")
        return address.port

    async def start(self) -> None:
        """Listen, or PortTaken."""
        self._listener = await listen(
            self._connection, self._address, setting="tcp", backlog=BACKLOG
        )
        log.info("listening", extra={"fields": {"site": self.name, "port": self.port}})

    async def drain(self) -> None:
        """Take no new connection and no new command; finish those that were begun."""
        self._draining.set()
        if self._listener is not None:
            self._listener.close()
        if self._connections:
            await asyncio.wait(set(self._connections))

    async def stop(self) -> None:
        """Close everything."""
        self._draining.set()
        if self._listener is not None:
            self._listener.close()
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    def _connection(self) -> asyncio.Protocol:
        reader = asyncio.StreamReader(limit=READ_BYTES)
        return asyncio.StreamReaderProtocol(reader, self._connected)

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._connections) >= self._connections_max or self._draining.is_set():
            writer.close()
            return
        task = asyncio.create_task(self._serve(reader, writer), name="broker connection")
        self._connections.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._connections.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("broker connection failed", exc_info=error)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        parser = BrokerParser(self._message_bytes_max)
        try:
            while not self._draining.is_set():
                command = parser.next()
                if command is not None:
                    writer.write(await self._answer(command))
                    await writer.drain()
                    continue
                chunk = await self._read(reader)
                if not chunk:
                    return
                parser.feed(chunk)
        except BadLine as error:
            writer.write(err(error.code, str(error)))
        except ConnectionError:
            return
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    async def _read(self, reader: asyncio.StreamReader) -> bytes:
        """The next bytes; none at the end, after a long silence, or when it is time to stop."""
        reading = asyncio.create_task(reader.read(READ_BYTES))
        stopping = asyncio.create_task(self._draining.wait())
        try:
            await asyncio.wait(
                {reading, stopping}, timeout=IDLE_S, return_when=asyncio.FIRST_COMPLETED
            )
            return reading.result() if reading.done() else b""
        finally:
            for task in (reading, stopping):
                task.cancel()
            await asyncio.gather(reading, stopping, return_exceptions=True)

    async def _answer(self, command: Pub | Fetch) -> bytes:
        try:
            if isinstance(command, Fetch):
                topic = check_any_topic(command.topic)
                payload = await self._reader.payload(topic, PARTITION, command.offset)
                return msg(command.offset, payload)
            return await self._publish(check_topic(command.topic), command.payload)
        except BadField as error:
            return err("bad_topic", str(error))
        except SidecarError as error:
            problem = PROBLEMS.find(error)
            return err("internal" if problem is None else problem.code, str(error))

    async def _publish(self, topic: str, payload: bytes) -> bytes:
        content_type = None if is_json(payload) else OCTETS
        message = Message(topic, payload, time.time_ns() // 1000, content_type=content_type)
        outcome = await self._publisher.publish(message, Ack.CORE, self._timeout_s, PARTITION)
        if isinstance(outcome, Committed):
            return ok(outcome.offset)
        return err("not_committed", "the message was not committed")
