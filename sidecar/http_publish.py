"""`POST /publish`: reads the body within its limit, publishes, answers."""

import time
from typing import Final

import orjson
from aiohttp import web

from sidecar.api_types import PublishQuery, parse_query
from sidecar.batch import Ack, Committed, Kept, Outcome
from sidecar.errors import BadQuery, TooLarge
from sidecar.message import HEADERS_BYTES_MAX, parse_publish
from sidecar.publisher import Publisher

AROUND_BYTES_MAX: Final = HEADERS_BYTES_MAX + 32 * 1024
"""What may stand in a body around the message: topic, key, id, headers, white space."""


class PublishHandlers:
    """The handlers that take messages in."""

    def __init__(
        self,
        publisher: Publisher,
        *,
        message_bytes_max: int,
        timeout_s: float,
        timeout_s_max: float,
    ) -> None:
        self._publisher = publisher
        self._message_bytes_max = message_bytes_max
        self._timeout_s = timeout_s
        self._timeout_s_max = timeout_s_max
        # In base64 a message is a third longer.
        self.body_bytes_max = message_bytes_max * 4 // 3 + AROUND_BYTES_MAX

    async def publish(self, request: web.Request) -> web.Response:
        """One message."""
        query = parse_query(request.query, PublishQuery)
        timeout_s = self.patience(query.timeout_ms)
        body = await read_body(request, self.body_bytes_max)
        message = parse_publish(body, time.time_ns() // 1000, self._message_bytes_max)
        outcome = await self._publisher.publish(message, Ack(query.ack), timeout_s)
        status, answer = outcome_json(outcome)
        return web.Response(status=status, body=answer, content_type="application/json")

    def patience(self, timeout_ms: int | None) -> float:
        """How long a publish waits, in seconds, or BadQuery."""
        if timeout_ms is None:
            return self._timeout_s
        if timeout_ms > self._timeout_s_max * 1000:
            raise BadQuery(
                "timeout_ms", f"is above limits.timeout_max, {self._timeout_s_max * 1000:.0f} ms"
            )
        return timeout_ms / 1000


def outcome_json(outcome: Outcome) -> tuple[int, bytes]:
    """Status and body for a message that was taken."""
    if isinstance(outcome, Committed):
        return 200, orjson.dumps(
            {
                "topic": outcome.topic,
                "partition": outcome.partition,
                "offset": outcome.offset,
                "id": outcome.id,
                "durability": outcome.durability,
            }
        )
    if isinstance(outcome, Kept):
        topic, identity, durability = outcome
        return 202, orjson.dumps({"topic": topic, "id": identity, "durability": durability})
    raise outcome


async def read_body(request: web.Request, bytes_max: int) -> bytes:
    """The whole body, or TooLarge as soon as it is known to be above the limit."""
    declared = request.content_length
    if declared is not None and declared > bytes_max:
        raise _too_large(declared, bytes_max)
    chunks: list[bytes] = []
    size = 0
    while chunk := await request.content.readany():
        size += len(chunk)
        if size > bytes_max:
            raise _too_large(size, bytes_max)
        chunks.append(chunk)
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def _too_large(size: int, bytes_max: int) -> TooLarge:
    return TooLarge(
        f"body: has {size} bytes or more; the limit is {bytes_max} "
        "(limits.message_bytes_max and what may stand around a message)"
    )
