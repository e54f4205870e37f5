"""Reading history: pages of messages by offset, through a gatekeeper's `/v1/read`."""

import asyncio
import random
from dataclasses import dataclass
from typing import Final

from log_format.errors import FormatError
from log_format.frame import iter_frames
from sidecar.delivery.rendering import Rendered, render_frame
from sidecar.errors import (
    BadQuery,
    Damaged,
    Denied,
    GatekeeperRefused,
    OverQuota,
    SidecarError,
    UnknownMessage,
    UnknownTopic,
    UplinkDown,
    retry_after,
)
from sidecar.uplink.backoff import Backoff
from sidecar.uplink.gateway import ANSWER_TIMEOUT_S, Answer, Gateway, Unreachable
from sidecar.uplink.uplink import Uplink

READ_BYTES: Final = 1024 * 1024
"""Asked of a gatekeeper at one time; a page of many messages takes several."""
PATIENCE_S: Final = 10.0
"""How long a read waits for a broken link: a gatekeeper's restart takes a second or two."""
EARLY_ANSWER_S: Final = 0.02
"""Between two questions of one long poll."""
PAGE_BYTES_MAX: Final = 8 * 1024 * 1024
"""A page ends behind the message that passes this, whatever `limit` says."""


@dataclass(frozen=True, slots=True)
class Page:
    """Messages in order, and where to go on."""

    messages: list[Rendered]
    next_offset: int


class Reader:
    """Reads what is in the log. Keeps no state."""

    def __init__(self, gateway: Gateway, uplink: Uplink, backoff: Backoff | None = None) -> None:
        self._gateway = gateway
        self._uplink = uplink
        self._backoff = Backoff() if backoff is None else backoff

    async def page(
        self, topic: str, partition: int, offset: int, limit: int, wait_s: float = 0.0
    ) -> Page:
        """At most `limit` messages from `offset` on; none where the log ends before it.

        Where there is none yet, waits for one up to `wait_s`. Raises Damaged only where the damage
        begins: what lies before it is a page of its own.
        """
        loop = asyncio.get_running_loop()
        until = loop.time() + wait_s
        messages: list[Rendered] = []
        size = 0
        while len(messages) < limit and size < PAGE_BYTES_MAX:
            left_s = 0.0 if messages else max(0.0, until - loop.time())
            try:
                answer = await self._read(topic, partition, offset, wait_s=left_s)
            except Damaged:
                if messages:
                    break
                raise
            try:
                for frame in iter_frames(answer.body):
                    for rendered in render_frame(frame, offset):
                        if len(messages) == limit or size >= PAGE_BYTES_MAX:
                            return Page(messages, offset)
                        messages.append(rendered)
                        size += len(rendered.envelope)
                        offset = rendered.offset + 1
            except FormatError as error:
                raise GatekeeperRefused(f"the log's answer is damaged: {error}") from error
            # Where retention has taken all that was asked for, the log says where to go on.
            offset = max(offset, _next_offset(answer))
            if not answer.body:
                if messages or loop.time() >= until:
                    break
                # A log that answers early is asked again, though not without a pause.
                await asyncio.sleep(EARLY_ANSWER_S)
        return Page(messages, offset)

    async def one(self, topic: str, partition: int, offset: int) -> bytes:
        """The envelope of the message at `offset`, or UnknownMessage."""
        page = await self.page(topic, partition, offset, 1)
        if not page.messages or page.messages[0].offset != offset:
            raise UnknownMessage(f"{topic}, partition {partition}, has no message {offset} now")
        return page.messages[0].envelope

    async def payload(self, topic: str, partition: int, offset: int) -> bytes:
        """The payload of the message at `offset`, at once, or UnknownMessage."""
        answer = await self._read(topic, partition, offset, patience_s=0.0)
        try:
            for frame in iter_frames(answer.body):
                stamp = frame.envelope.stamp
                index = -1 if stamp is None else offset - stamp.base_offset
                if 0 <= index < frame.envelope.producer.count:
                    frame.check_hash()
                    return frame.columns().value[index] or b""
        except FormatError as error:
            raise GatekeeperRefused(f"the log's answer is damaged: {error}") from error
        raise UnknownMessage(f"{topic}, partition {partition}, has no message {offset} now")

    async def _read(
        self,
        topic: str,
        partition: int,
        offset: int,
        patience_s: float = PATIENCE_S,
        wait_s: float = 0.0,
    ) -> Answer:
        query = {
            "topic": topic,
            "partition": str(partition),
            "offset": str(offset),
            "max_bytes": str(READ_BYTES),
            "wait_ms": str(int(wait_s * 1000)),
        }
        answer = await self._ask(query, patience_s, wait_s)
        if answer.status != 200:
            raise refusal_of(answer)
        return answer

    async def _ask(self, query: dict[str, str], patience_s: float, wait_s: float) -> Answer:
        """Ask again while the link is broken: a read does no harm twice."""
        loop = asyncio.get_running_loop()
        until = loop.time() + patience_s
        refusals = 0
        while True:
            try:
                answer = await self._gateway.ask(
                    "GET", "/v1/read", query=query, timeout_s=ANSWER_TIMEOUT_S + wait_s
                )
            except Unreachable as error:
                left = until - loop.time()
                self._uplink.doubt()
                if left <= 0 or not await self._uplink.wait_connected(left):
                    raise unreachable(error) from error
                continue
            left = until - loop.time()
            if answer.status != 503 or left <= 0:
                return answer
            # The link may hold although this request is refused: then only time can help.
            refusals += 1
            chance = random.random()  # noqa: S311 - jitter
            await asyncio.sleep(min(left, self._backoff.delay_s(refusals, chance)))
            self._uplink.doubt()
            await self._uplink.wait_connected(left)


def _next_offset(answer: Answer) -> int:
    text = answer.headers.get("sidegate-next-offset", "0")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else 0


def unreachable(error: Unreachable) -> UplinkDown:
    """What an app is told where no gatekeeper answers."""
    return UplinkDown(f"no gatekeeper answers ({error})", headers=retry_after(1.0))


def refusal_of(answer: Answer) -> SidecarError:
    """A gatekeeper's problem document as the sidecar's own error."""
    document = answer.document()
    members = document if isinstance(document, dict) else {}
    code = str(members.get("code", "bad_gateway"))
    detail = str(members.get("detail", f"the gatekeeper answers {answer.status}"))
    if answer.status == 403:
        kept = {name: members[name] for name in ("decision_id", "reason") if name in members}
        return Denied(detail, members=kept)
    if answer.status == 404 and code in ("unknown_topic", "unknown_partition"):
        return UnknownTopic(detail)
    if answer.status == 410 and code == "damaged":
        kept = {name: members[name] for name in ("first_offset", "next_offset") if name in members}
        return Damaged(detail, members=kept)
    if answer.status == 429:
        wait = answer.headers.get("retry-after", "1")
        return OverQuota(detail, headers={"Retry-After": wait})
    if answer.status >= 500 or answer.status == 401:
        return UplinkDown(f"{code}: {detail}", headers=retry_after(1.0))
    if answer.status in (400, 413):
        return BadQuery("request", detail)
    return GatekeeperRefused(f"{answer.status} {code}: {detail}")
