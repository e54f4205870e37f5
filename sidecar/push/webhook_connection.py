"""One connection to an app: a request at a time, judged by its answer's status.

Thin: it writes, counts the time and hands bytes to `webhook_answer.py`. Whatever the app does, an
exchange ends in time, and an answer without end is cut off.
"""

import asyncio
import time
from typing import Final, cast

from sidecar.push.push_queue import Verdict
from sidecar.push.retry_after import parse_retry_after
from sidecar.push.webhook_answer import NotHttp, WebhookAnswer

BODY_S_MAX: Final = 1.0
"""For the rest of an answer whose status is known: an app that drips holds no place for longer."""
QUIET_STATUSES: Final = frozenset({429, 503})
"""With Retry-After, these speak for the whole app, not for one message."""


def judge(status: int, retry_after: str | None, now_s: float, excerpt: bytes = b"") -> Verdict:
    """What an answer's status means."""
    if 200 <= status < 300:
        return Verdict(delivered=True, reached=True, status=status)
    wait_s = parse_retry_after(retry_after, now_s)
    text = excerpt.decode("utf-8", "replace")
    shown = "".join(each if each.isprintable() else " " for each in text).strip()
    error = f"the app answered {status}" + (f": {shown}" if shown else "")
    if 300 <= status < 400:
        error = f"the app answered {status}; redirects are not followed"
    return Verdict(
        delivered=False,
        reached=True,
        status=status,
        error=error,
        retry_after_s=wait_s,
        hold_all=wait_s is not None and status in QUIET_STATUSES,
    )


class WebhookConnection(asyncio.Protocol):
    """Belongs to the event loop. `idle_since` is the owner's to keep."""

    __slots__ = ("_answer", "_deadline", "_done", "_loop", "_timer", "_transport", "idle_since")

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._answer = WebhookAnswer()
        self._done: asyncio.Future[Verdict] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._deadline = 0.0
        self.idle_since = 0.0

    @property
    def open(self) -> bool:
        """Whether a request can be sent."""
        return self._transport is not None and not self._transport.is_closing()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Connected, and the server's certificate verified where there is one."""
        self._transport = cast(asyncio.Transport, transport)

    async def exchange(self, head: bytes, body: bytes, timeout_s: float) -> Verdict:
        """Send, and wait for the verdict. The connection is closed where it can't be used again."""
        if self._transport is None:
            return _failed("the connection was closed")
        self._answer = WebhookAnswer()
        self._done = self._loop.create_future()
        self._timer = self._loop.call_later(timeout_s, self._late, timeout_s)
        try:
            self._transport.write(head + body if len(body) < 65_536 else head)
            if len(body) >= 65_536:
                self._transport.write(body)
            return await self._done
        except asyncio.CancelledError:
            self.close()
            raise
        finally:
            self._timer.cancel()
            self._done = None

    def data_received(self, data: bytes) -> None:
        """A piece of the answer."""
        if self._done is None or self._done.done():
            # Nothing was asked for: whatever this is, it answers no request.
            self.close()
            return
        answer = self._answer
        known = answer.status
        try:
            answer.feed(data)
        except NotHttp as error:
            self._finish(self._verdict() if known else _failed(str(error)), reusable=False)
            return
        if answer.whole:
            self._finish(self._verdict(), reusable=answer.reusable)
        elif answer.too_long:
            self._finish(self._verdict(), reusable=False)
        elif answer.status and not known and self._timer is not None:
            self._timer.cancel()
            self._timer = self._loop.call_later(BODY_S_MAX, self._cut)

    def connection_lost(self, exc: Exception | None) -> None:
        """The app has gone, perhaps with its answer complete."""
        self._transport = None
        if self._answer.status:
            self._finish(self._verdict(), reusable=False)
        else:
            reason = str(exc) if exc else "the app closed the connection without an answer"
            self._finish(_failed(reason), reusable=False)

    def close(self) -> None:
        """Close at once."""
        if self._transport is not None:
            self._transport.abort()

    def _verdict(self) -> Verdict:
        answer = self._answer
        return judge(answer.status, answer.retry_after, time.time(), answer.excerpt)

    def _late(self, timeout_s: float) -> None:
        self._finish(_failed(f"no answer within {timeout_s * 1000:.0f} ms"), reusable=False)

    def _cut(self) -> None:
        self._finish(self._verdict(), reusable=False)

    def _finish(self, verdict: Verdict, *, reusable: bool) -> None:
        if self._done is not None and not self._done.done():
            self._done.set_result(verdict)
        if not reusable:
            self.close()


def _failed(reason: str) -> Verdict:
    return Verdict(delivered=False, reached=True, error=reason[:300])
