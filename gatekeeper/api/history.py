"""GET /v1/read: history in frames, no further back than the policy lets the caller look."""

import asyncio
import time
from typing import Final

import aiohttp
from aiohttp import web

from gatekeeper.api.call import Call
from gatekeeper.api.gate import Gate
from gatekeeper.api.parameters import required, topic_name, whole_number
from gatekeeper.api.routes import Needs, questions_for
from gatekeeper.audit.decisions import Ruling
from gatekeeper.core.upstream import RETRY_AFTER_S, CoreClient, passed_back
from gatekeeper.errors import CoreUnavailable
from log_format.envelope import HEAD_BYTES, decode_envelope, peek_lengths
from log_format.errors import FormatError

READ_BYTES: Final = 1024 * 1024
"""A read's page, where the caller names none."""
WHOLE_BYTES_MAX: Final = 256 * 1024
"""Answers up to this size are passed on in one piece; greater ones as they arrive."""


class History:
    """The handler of reads. Lives in one event loop."""

    def __init__(
        self,
        *,
        gate: Gate,
        core: CoreClient,
        read_bytes_max: int,
        wait_s_max: float,
        answer_s_max: float,
    ) -> None:
        self._gate = gate
        self._core = core
        self._read_bytes_max = read_bytes_max
        self._wait_ms_max = round(wait_s_max * 1000)
        self._answer_s_max = answer_s_max

    async def read(self, call: Call) -> web.StreamResponse:
        """Frames from an offset on. The first frame's age is held against what is allowed; those
        behind it are younger."""
        given = call.query
        topic = topic_name(required(given, "topic"))
        wait_ms = min(whole_number(given.get("wait_ms", "0"), "wait_ms"), self._wait_ms_max)
        max_bytes = whole_number(given.get("max_bytes", str(READ_BYTES)), "max_bytes")
        query = {
            "topic": topic,
            "partition": str(whole_number(given.get("partition", "0"), "partition")),
            "offset": str(whole_number(required(given, "offset"), "offset")),
            "max_bytes": str(min(max_bytes, self._read_bytes_max)),
            "wait_ms": str(wait_ms),
        }
        ruling = await self._gate.require(call.caller, questions_for(Needs.HISTORY, topic), topic)
        behalf = call.behalf(ruling)
        async with self._core.read(query, behalf, wait_s=wait_ms / 1000) as response:
            return await self._pass_on(call.request, response, ruling)

    async def _pass_on(
        self, request: web.BaseRequest, response: aiohttp.ClientResponse, ruling: Ruling
    ) -> web.StreamResponse:
        headers = passed_back(response)
        content = response.content
        first = b""
        if response.status == 200 and ruling.max_age_s is not None:
            first = await _first_envelope(content)
            if first and is_older(first, ruling.max_age_s, time.time_ns() // 1000):
                raise self._gate.refuse_age(ruling)
        length = response.content_length
        if length is not None and length <= WHOLE_BYTES_MAX:
            body = first + await content.read(-1)
            return web.Response(status=response.status, headers=headers, body=body)
        answer = web.StreamResponse(status=response.status, headers=headers)
        answer.content_length = length
        try:
            async with asyncio.timeout(self._answer_s_max):
                await answer.prepare(request)
                await answer.write(first)
                while chunk := await content.readany():
                    await answer.write(chunk)
                await answer.write_eof()
        except TimeoutError as error:
            # Only a broken connection can still tell the reader that its answer is incomplete.
            if request.transport is not None:
                request.transport.abort()
            raise ConnectionResetError("the reader did not take its answer in time") from error
        return answer


def is_older(frame: bytes | memoryview, max_age_s: float, now_us: int) -> bool:
    """True when the frame at the begin of these bytes was appended more than `max_age_s` ago. A
    frame without a stamp has no age that could be trusted, and counts as older."""
    stamp = decode_envelope(frame).stamp
    return stamp is None or now_us - stamp.append_us > max_age_s * 1_000_000


async def _first_envelope(content: aiohttp.StreamReader) -> bytes:
    """At least the first envelope of an answer; nothing where the answer is empty."""
    first = bytearray()
    needed = HEAD_BYTES
    try:
        while len(first) < needed:
            chunk = await content.readany()
            if not chunk:
                break
            first += chunk
            if needed == HEAD_BYTES and len(first) >= HEAD_BYTES:
                needed = peek_lengths(first).envelope
        if first:
            decode_envelope(first)
    except FormatError as error:
        raise CoreUnavailable(
            f"the core's answer is no run of frames: {error}", RETRY_AFTER_S
        ) from error
    return bytes(first)
