"""Rejects over HTTP: what was refused after a 202, to be looked at, retried or dropped."""

from aiohttp import web

from sidecar.api_types import NoQuery, parse_query
from sidecar.app import json_response
from sidecar.batch import Ack
from sidecar.errors import UnknownMessage
from sidecar.http_body import path_number
from sidecar.publisher import Publisher
from sidecar.rejects import Reject, RejectFile


class RejectHandlers:
    """The handlers around the reject file."""

    def __init__(self, rejects: RejectFile, publisher: Publisher, timeout_s: float) -> None:
        self._rejects = rejects
        self._publisher = publisher
        self._timeout_s = timeout_s

    async def list_rejects(self, request: web.Request) -> web.Response:
        """All of them, oldest first, without their payloads."""
        parse_query(request.query, NoQuery)
        return json_response({"rejects": [each.summary() for each in self._rejects.list()]})

    async def retry_reject(self, request: web.Request) -> web.Response:
        """Publish a batch's messages again, in their order.

        One that is refused again stays, with those behind it: its error is the answer.
        """
        reject = self._found(request)
        done = 0
        try:
            for message in reject.records():
                await self._publisher.publish(message, Ack.AUTO, self._timeout_s, reject.partition)
                done += 1
        finally:
            if 0 < done < reject.messages:
                self._rejects.keep_rest(reject, done)
        self._rejects.drop([reject.id])
        return json_response({"retried": reject.messages})

    async def drop_reject(self, request: web.Request) -> web.Response:
        """Forget a batch for good."""
        self._rejects.drop([self._found(request).id])
        return web.Response(status=204)

    def _found(self, request: web.Request) -> Reject:
        number = path_number(request, "reject")
        for each in self._rejects.list():
            if each.id == number:
                return each
        raise UnknownMessage(f"there is no reject {number}; GET /rejects lists them")
