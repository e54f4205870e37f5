"""`GET /receipt/{topic}/{partition}/{offset}`, and the receipt in the answer to a publish."""

import asyncio
from collections.abc import Callable
from typing import Any

import orjson
from aiohttp import web

from sidecar.api.api_types import parse_query
from sidecar.api.http_body import any_topic, path_number
from sidecar.api.publish_types import ReceiptQuery
from sidecar.errors import BadQuery, SidecarError
from sidecar.publish.batch import Ack, Committed, Outcome
from sidecar.publish.receipts import Receipts

NO_LOG = "memory"
"""The durability of messages that are in no log, and so in no tree."""


class ReceiptHandlers:
    """Receipts for apps."""

    def __init__(self, receipts: Receipts, patience: Callable[[int | None], float]) -> None:
        self._receipts = receipts
        self._patience = patience

    async def receipt(self, request: web.Request) -> web.Response:
        """The receipt of a message that is in the log."""
        query = parse_query(request.query, ReceiptQuery)
        topic = any_topic(request)
        partition, offset = (path_number(request, name) for name in ("partition", "offset"))
        timeout_s = self._patience(query.timeout_ms)
        receipt = await self._receipts.fetch(topic, partition, offset, timeout_s)
        return web.Response(
            body=orjson.dumps(receipt.proof.as_json()), content_type="application/json"
        )

    async def answer(self, outcome: Outcome, until: float) -> web.Response:
        """The answer to a publish that asked for a receipt. The message counts as published
        whatever becomes of the receipt: then the answer says why there is none."""
        if isinstance(outcome, SidecarError):
            raise outcome
        document: dict[str, Any] = {**outcome._asdict(), "receipt": None}
        if not isinstance(outcome, Committed):
            document["reason"] = "the message is not in the log yet; ack=core waits until it is"
            return _json(202, document)
        if outcome.durability == NO_LOG:
            document["reason"] = "the topic is kept in memory only, and so in no log"
            return _json(200, document)
        place = (outcome.topic, outcome.partition, outcome.offset)
        left_s = max(0.0, until - asyncio.get_running_loop().time())
        try:
            receipt = await self._receipts.fetch(*place, left_s)
        except SidecarError as error:
            document |= {
                "reason": str(error),
                "receipt_url": f"/receipt/{place[0]}/{place[1]}/{place[2]}",
            }
        else:
            document["receipt"] = receipt.proof.as_json()
        return _json(200, document)


def require_outcome(ack: Ack) -> None:
    """A receipt needs an answer of the log."""
    if ack.detached:
        raise BadQuery("receipt", f"needs ack=auto or ack=core, not ack={ack.value}")


def _json(status: int, document: dict[str, Any]) -> web.Response:
    return web.Response(status=status, body=orjson.dumps(document), content_type="application/json")
