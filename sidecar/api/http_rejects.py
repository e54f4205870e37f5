"""Rejects over HTTP: what was refused after a 202, to be looked at, retried or dropped."""

from aiohttp import web

from sidecar.api.api_types import NoQuery, RejectQuery, RetryAllQuery, RetryQuery, parse_query
from sidecar.api.app import json_response
from sidecar.api.http_body import path_number
from sidecar.api.problems import PROBLEMS
from sidecar.errors import SidecarError, UnknownMessage
from sidecar.spool.reject_retry import RejectRetry
from sidecar.spool.rejects import Reject, RejectFile


class RejectHandlers:
    """The handlers around the reject file."""

    def __init__(self, rejects: RejectFile, retry: RejectRetry) -> None:
        self._rejects = rejects
        self._retry = retry

    async def list_rejects(self, request: web.Request) -> web.Response:
        """All of them, or a topic's, oldest first, without their payloads."""
        query = parse_query(request.query, RejectQuery)
        return json_response({"rejects": [each.summary() for each in self._of(query.topic)]})

    async def retry_reject(self, request: web.Request) -> web.Response:
        """Publish a batch's messages again, in their order.

        What is refused again stays: its error is the answer.
        """
        query = parse_query(request.query, RetryQuery)
        return json_response(
            {"retried": await self._retry.one(self._found(request), force=query.force)}
        )

    async def retry_rejects(self, request: web.Request) -> web.Response:
        """The same for all of them, or a topic's; those that stay are named with the reason."""
        query = parse_query(request.query, RetryAllQuery)
        done = await self._retry.all(self._of(query.topic), force=query.force)
        refused = [
            {"id": reject.id, "topic": reject.topic, "code": _code(error), "detail": str(error)}
            for reject, error in done.refused
        ]
        return json_response({"retried": done.messages, "refused": refused})

    async def drop_reject(self, request: web.Request) -> web.Response:
        """Forget a batch for good."""
        parse_query(request.query, NoQuery)
        self._rejects.drop([self._found(request).id])
        return web.Response(status=204)

    async def drop_rejects(self, request: web.Request) -> web.Response:
        """Forget all of them, or a topic's, for good."""
        query = parse_query(request.query, RejectQuery)
        gone = self._of(query.topic)
        self._rejects.drop(each.id for each in gone)
        return json_response({"dropped": len(gone), "messages": sum(e.messages for e in gone)})

    def _of(self, topic: str | None) -> list[Reject]:
        return [each for each in self._rejects.list() if topic in (None, each.topic)]

    def _found(self, request: web.Request) -> Reject:
        number = path_number(request, "reject")
        found = self._rejects.find(number)
        if found is None:
            raise UnknownMessage(f"there is no reject {number}; GET /rejects lists them")
        return found


def _code(error: SidecarError) -> str:
    problem = PROBLEMS.find(error)
    return "internal" if problem is None else problem.code
