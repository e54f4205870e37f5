"""The fast front of the app-facing site: `POST /publish` without aiohttp's application layer.

Heads that `fast_head.py` understands are served here. What is published goes the same way as from
any other route.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Final

import orjson

from hosting.front import Front, FrontConnection
from hosting.problems import problem_response
from sidecar.api.fast_head import Plan, parse_head
from sidecar.api.guard import Guard
from sidecar.api.problems import PROBLEMS
from sidecar.errors import SidecarError
from sidecar.publish.batch import Committed, Entry, Kept, Outcome
from sidecar.publish.message import parse_publish
from sidecar.publish.publisher import Publisher

PLANS_MAX: Final = 1024
"""Heads whose plan is remembered: a client sends the same one but for its Content-Length."""
PLANNED_HEAD_BYTES_MAX: Final = 1024
"""Longer heads are read anew each time, which bounds what is remembered to a megabyte."""


class FastFront(Front[Plan]):
    """Makes the connections of the site. A hosting component, to be added after the site."""

    name = "fast publish"

    def __init__(
        self,
        publisher: Publisher,
        guard: Guard,
        *,
        message_bytes_max: int,
        body_bytes_max: int,
        patience: Callable[[int | None], float],
        connections_max: int,
        draining: asyncio.Event,
    ) -> None:
        """`draining` is the site's own event: once set, the site refuses what is handed on."""
        super().__init__(
            begins=b"POST /publish", connections_max=connections_max, draining=draining
        )
        self._publisher = publisher
        self._message_bytes_max = message_bytes_max
        self._body_bytes_max = body_bytes_max
        self._guard = guard
        self._patience = patience
        self._plans: dict[bytes, Plan] = {}
        self._requests = 0
        self._id_prefix = f"{time.time_ns() & 0xFFFFFFFF:08x}"

    def plan(self, head: bytes, connection: FrontConnection[Plan]) -> Plan | None:  # noqa: ARG002
        """What to do with a head; None where aiohttp has to do it."""
        known = self._plans.get(head)
        if known is not None:
            return known
        plan = parse_head(head, self._guard, self._body_bytes_max, self._patience)
        if plan is not None and len(head) <= PLANNED_HEAD_BYTES_MAX:
            if len(self._plans) >= PLANS_MAX:
                self._plans.clear()
            self._plans[head] = plan
        return plan

    def serve(self, connection: FrontConnection[Plan], plan: Plan, body: bytes) -> None:
        """Publish one message; the answer follows once its outcome is known."""

        def settled(outcome: Outcome) -> None:
            connection.answer(self._whole(outcome))

        try:
            message = parse_publish(body, time.time_ns() // 1000, self._message_bytes_max)
        except SidecarError as error:
            settled(error)
        else:
            self._publisher.submit(Entry(message, plan.ack, settled), plan.timeout_s)

    def _whole(self, outcome: Outcome) -> bytes:
        """The whole HTTP answer."""
        self._requests += 1
        identity = f"{self._id_prefix}{self._requests:08x}"
        if isinstance(outcome, Committed):
            topic, partition, offset, own, durability = outcome
            body = b'{"topic":"%s","partition":%d,"offset":%d,"id":%s,"durability":"%s"}' % (
                topic.encode("ascii"),
                partition,
                offset,
                orjson.dumps(own),
                durability.encode("ascii"),
            )
            return self.encode(b"200 OK", b"application/json", body, identity)
        if isinstance(outcome, Kept):
            body = orjson.dumps(outcome._asdict())
            return self.encode(b"202 Accepted", b"application/json", body, identity)
        problem = PROBLEMS.find(outcome)
        if problem is None:
            raise outcome
        refusal = problem_response(
            problem,
            str(outcome),
            request_id=identity,
            members=outcome.members,
            headers=outcome.headers,
        )
        return self.encode_response(refusal)
