"""Reading over HTTP: pages of messages, and single messages."""

import asyncio

from aiohttp import web

from hosting.web import DRAINING
from sidecar.api.api_types import MessagesQuery, NoQuery, parse_query
from sidecar.api.http_body import any_topic, path_number
from sidecar.counters import Counters
from sidecar.delivery.reader import Page, Reader


class ReadHandlers:
    """The handlers that give messages out."""

    def __init__(
        self,
        reader: Reader,
        counters: Counters,
    ) -> None:
        self._reader = reader
        self._counters = counters

    async def messages(self, request: web.Request) -> web.Response:
        """A page."""
        query = parse_query(request.query, MessagesQuery)
        page = await self._page(request, any_topic(request), query)
        self._counters.delivered_messages += len(page.messages)
        listed = b",".join([rendered.envelope for rendered in page.messages])
        body = b'{"messages":[%s],"next_offset":%d}' % (listed, page.next_offset)
        return web.Response(body=body, content_type="application/json")

    async def message(self, request: web.Request) -> web.Response:
        """One message."""
        parse_query(request.query, NoQuery)
        partition, offset = (path_number(request, name) for name in ("partition", "offset"))
        envelope = await self._reader.one(any_topic(request), partition, offset)
        self._counters.delivered_messages += 1
        return web.Response(body=envelope, content_type="application/json")

    async def _page(self, request: web.Request, topic: str, query: MessagesQuery) -> Page:
        reading = asyncio.ensure_future(
            self._reader.page(
                topic, query.partition, query.offset, query.limit, query.wait_ms / 1000
            )
        )
        if not query.wait_ms:
            return await reading
        # Whoever only waits for something to come does not keep a sidecar from going.
        draining = asyncio.create_task(request.app[DRAINING].wait())
        try:
            await asyncio.wait({reading, draining}, return_when=asyncio.FIRST_COMPLETED)
            return reading.result() if reading.done() else Page([], query.offset)
        finally:
            draining.cancel()
            reading.cancel()
            await asyncio.gather(reading, draining, return_exceptions=True)
