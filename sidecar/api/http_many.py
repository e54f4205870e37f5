"""Many messages in one request: `/publish/{topic}/batch` and `/publish/{topic}/lines`."""

import asyncio
import time
from typing import Final

import orjson
from aiohttp import web

from hosting.web import DRAINING
from sidecar.api.api_types import PublishQuery, parse_query
from sidecar.api.http_body import app_topic, read_body
from sidecar.api.http_publish import Check, Patience
from sidecar.errors import SidecarError, Stopping
from sidecar.publish.batch import Ack, Entry, Lines, Outcome
from sidecar.publish.lines import Block, LineCutter, LineTooLong
from sidecar.publish.message import Message, parse_batch
from sidecar.publish.publisher import Publisher
from sidecar.publish.ranges import Ranges

BATCH_BYTES_MAX: Final = 16 * 1024 * 1024
"""One body of `/batch`, which is read as a whole before any of it is published."""
BLOCK_BYTES: Final = 512 * 1024
"""Lines are published in blocks of this size: two of them make a batch of the default size."""
AHEAD_BYTES_MAX: Final = 8 * 1024 * 1024
"""Of one request of `/lines`, on the way to the log at one time; then reading stops."""


class Pending:
    """The messages of one request that are under way, and what became of the others."""

    def __init__(self) -> None:
        self.ranges = Ranges()
        self.bytes = 0
        self._under_way = 0
        self._changed = asyncio.Event()

    def entry(self, payload: Message | Lines, ack: Ack, index: int, count: int, size: int) -> Entry:
        """An entry whose outcome is counted here."""
        self._under_way += 1
        self.bytes += size

        def reply(outcome: Outcome) -> None:
            self.ranges.add(outcome, index, count)
            self._under_way -= 1
            self.bytes -= size
            self._changed.set()

        return Entry(payload, ack, reply)

    async def below(self, size: int) -> None:
        """Wait until less than `size` bytes are under way, or something has failed."""
        while self.bytes >= size and self.ranges.failure is None:
            self._changed.clear()
            await self._changed.wait()

    async def finished(self) -> Ranges:
        """Wait until nothing is under way."""
        while self._under_way:
            self._changed.clear()
            await self._changed.wait()
        return self.ranges


class ManyHandlers:
    """The handlers that take many messages at once."""

    def __init__(
        self, publisher: Publisher, patience: Patience, message_bytes_max: int, check: Check
    ) -> None:
        self._publisher = publisher
        self._check = check
        self._patience = patience
        self._message_bytes_max = message_bytes_max

    async def publish_batch(self, request: web.Request) -> web.Response:
        """Envelopes: all of them are sound, or none is published."""
        topic = app_topic(request)
        self._check(request, topic)
        query = parse_query(request.query, PublishQuery)
        timeout_s = self._patience(query.timeout_ms)
        body = await read_body(request, BATCH_BYTES_MAX)
        now_us = time.time_ns() // 1000
        messages = parse_batch(topic, body, now_us, self._message_bytes_max)
        await self._publisher.partitioner(topic)
        pending = Pending()
        for index, message in enumerate(messages):
            entry = pending.entry(message, Ack(query.ack), index, 1, message.size)
            self._publisher.submit(entry, timeout_s)
        return _answer(await pending.finished(), "index")

    async def publish_lines(self, request: web.Request) -> web.Response:
        """Each line is a message; the body may be of any length."""
        topic = app_topic(request)
        self._check(request, topic)
        query = parse_query(request.query, PublishQuery)
        timeout_s = self._patience(query.timeout_ms)
        pending = Pending()
        cutter = LineCutter(BLOCK_BYTES, self._message_bytes_max)
        broken: tuple[SidecarError, int] | None = None
        stopping = asyncio.create_task(_end_when_draining(request))
        try:
            while pending.ranges.failure is None:
                chunk = await request.content.readany()
                block = cutter.feed(chunk) if chunk else cutter.finish()
                if block is not None:
                    await self._send(topic, block, Ack(query.ack), timeout_s, pending)
                    await pending.below(AHEAD_BYTES_MAX)
                if not chunk:
                    break
        except LineTooLong as error:
            broken = error, error.line
        except Stopping as error:
            broken = error, cutter.count
        finally:
            stopping.cancel()
        ranges = await pending.finished()
        if broken is not None and ranges.failure is None:
            ranges.add(broken[0], broken[1], 0)
        return _answer(ranges, "line")

    async def _send(
        self, topic: str, block: Block, ack: Ack, timeout_s: float, pending: Pending
    ) -> None:
        now_us = time.time_ns() // 1000
        partitioner = await self._publisher.partitioner(topic)
        for partition, text, count in partitioner.spread(block.text, block.records):
            lines = Lines(topic, text, count, now_us)
            entry = pending.entry(lines, ack, block.first, count, len(text))
            self._publisher.submit(entry, timeout_s, partition)


async def _end_when_draining(request: web.Request) -> None:
    """A body may go on for hours; a sidecar that stops answers for what it has taken of it."""
    await request.app[DRAINING].wait()
    error = Stopping("the sidecar stops; send what is behind `published` again in a moment")
    request.content.set_exception(error)


def _answer(ranges: Ranges, unit: str) -> web.Response:
    if ranges.failure is not None:
        failure = ranges.failure
        failure.members = {
            **failure.members,
            unit: ranges.failed_at,
            "published": ranges.document(),
        }
        raise failure
    return web.Response(
        status=ranges.status,
        body=orjson.dumps(ranges.document()),
        content_type="application/json",
    )
