"""An app that takes webhooks."""

import asyncio
import json
from typing import Any

from aiohttp import web

from tests.sidecar.fakes.authority import Listening


class HookApp:
    """An app that takes webhooks and behaves as it is told.

    `answers` are used up one for each request: a number is a status, a response is sent as it is,
    a function of the request does what it likes. Without any it answers 200.
    """

    def __init__(self) -> None:
        self.answers: list[Any] = []
        self.seen: list[tuple[web.Request, bytes]] = []
        self.under_way = 0
        self.most_under_way = 0
        app = web.Application(client_max_size=64 * 1024 * 1024)
        app.router.add_route("*", "/{tail:.*}", self._answer)
        self._listening = Listening(app, None)
        self.start, self.stop = self._listening.start, self._listening.stop

    @property
    def port(self) -> int:
        return self._listening.port

    @property
    def url(self) -> str:
        return f"{self._listening.url}/hook"

    @property
    def messages(self) -> list[Any]:
        """The messages of the envelopes that came, in order."""
        return [json.loads(body)["message"] for _, body in self.seen]

    async def until(self, count: int) -> None:
        """Wait until so many requests have come; the test's timeout is the limit."""
        while len(self.seen) < count:  # noqa: ASYNC110 - the app's own state
            await asyncio.sleep(0.005)

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        self.seen.append((request, body))
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        try:
            answer = self.answers.pop(0) if self.answers else 200
            if callable(answer):
                answer = await answer(request)
            return web.Response(status=answer) if isinstance(answer, int) else answer
        finally:
            self.under_way -= 1
