"""The open streams: whose they are, and whether they may go on.

A stream outlives the moment in which it was allowed, so it is asked again: on a timer, when the
policy changes and when something is revoked. The question is a plain function; the registry only
asks it and tells a stream to end. Knows nothing of WebSockets.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from gatekeeper.api.connections import Connections
from gatekeeper.api.gate import Caller, best_decision
from gatekeeper.audit.decisions import Ruling
from gatekeeper.identity.authentication_errors import AuthenticationError
from gatekeeper.identity.authenticator import Authenticator
from gatekeeper.identity.certificates import PeerCertificate
from gatekeeper.policy.decide import Decision, Policy, Question

log = logging.getLogger("sidegate.gatekeeper.streams")

CHECKED_PER_TURN: Final = 50
"""Streams that are asked before other work gets a turn: about a millisecond."""


@dataclass(frozen=True, slots=True)
class End:
    """Why a stream ends, as its caller is told."""

    code: str
    detail: str
    members: dict[str, Any] = field(default_factory=dict)
    decision: Decision | None = None


@dataclass(slots=True, eq=False)
class OpenStream:
    """One stream. `caller` changes when a fresh token comes, `ruling` with a new policy. `owner` is
    whose subscription it is a member of, where that is another's."""

    caller: Caller
    peer: PeerCertificate
    questions: tuple[Question, ...]
    topic: str
    ruling: Ruling
    ended: "asyncio.Future[End]"
    owner: str = ""

    def end(self, end: End) -> None:
        """Ask the stream to end; the first reason counts."""
        if not self.ended.done():
            self.ended.set_result(end)


def why_end(
    stream: OpenStream,
    *,
    authenticator: Authenticator,
    policy: Policy,
    connections: Connections,
    now: float,
    now_s: float,
) -> End | None:
    """Whether a stream must end now: its caller is no longer proven, the policy in force denies
    it, or its connection is too old. `now` is the wall clock's, `now_s` the monotonic one's."""
    identity = stream.caller.identity
    try:
        authenticator.recheck(identity, stream.peer, now)
    except AuthenticationError as error:
        return End(error.code, str(error), dict(error.members))
    if policy.hash != stream.ruling.policy_hash:
        decision = best_decision(policy, identity, stream.questions, stream.topic)
        if decision.allowed and stream.owner:
            decision = policy.decide(identity, "share", stream.topic, stream.owner)
        if not decision.allowed:
            return End("denied", decision.text, {"reason": decision.reason}, decision)
        if decision.principal != stream.caller.principal:
            text = "the policy gives the caller another name now; open the stream again"
            return End("principal_changed", text)
    if connections.too_old(stream.caller.connection, now_s):
        return End("connection_age", "the connection has reached its greatest age; connect again")
    return None


class Streams:
    """A hosting component: the registry, and the timer that asks. Lives in one event loop."""

    name = "streams"

    def __init__(
        self,
        *,
        authenticator: Authenticator,
        policy: Callable[[], Policy],
        connections: Connections,
        interval_s: float,
        note_denial: Callable[[Caller, Decision], Ruling],
    ) -> None:
        self._authenticator = authenticator
        self._policy = policy
        self._connections = connections
        self._interval_s = interval_s
        self._note_denial = note_denial
        self._open: dict[OpenStream, None] = {}
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.draining = False

    def __len__(self) -> int:
        return len(self._open)

    def add(self, stream: OpenStream) -> None:
        """A stream was opened."""
        self._open[stream] = None
        if self.draining:
            stream.end(_DRAINING)

    def remove(self, stream: OpenStream) -> None:
        """A stream has ended."""
        self._open.pop(stream, None)

    def look_again(self) -> None:
        """Something changed that may end streams; they are asked at once."""
        self._changed.set()

    async def start(self) -> None:
        """Begin to ask."""
        self._task = asyncio.create_task(self._watch(), name="stream watch")

    async def drain(self) -> None:
        """End every stream: its caller opens it again elsewhere."""
        self.draining = True
        for stream in list(self._open):
            stream.end(_DRAINING)

    async def stop(self) -> None:
        """End the timer."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _watch(self) -> None:
        while True:
            try:
                async with asyncio.timeout(self._interval_s):
                    await self._changed.wait()
            except TimeoutError:
                pass
            self._changed.clear()
            await self._ask_all()

    async def _ask_all(self) -> None:
        for number, stream in enumerate(list(self._open), 1):
            self._ask(stream)
            if number % CHECKED_PER_TURN == 0:
                await asyncio.sleep(0)

    def _ask(self, stream: OpenStream) -> None:
        if stream.ended.done():
            return
        end = why_end(
            stream,
            authenticator=self._authenticator,
            policy=self._policy(),
            connections=self._connections,
            now=time.time(),
            now_s=asyncio.get_running_loop().time(),
        )
        if end is None:
            return
        if end.decision is not None:
            ruling = self._note_denial(stream.caller, end.decision)
            end.members["decision_id"] = ruling.id_text
        stream.end(end)


_DRAINING: Final = End("draining", "the gatekeeper is stopping; connect to another one")
