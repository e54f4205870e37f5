"""One connection of `/v1/stream`, from its opening to its loss.

Speaks the wire's framing: control messages as dictionaries, frames decoded, credit granted as
they are consumed, the token handed over when it is renewed. What to open with and what the
messages mean is the caller's matter; so is what comes after a loss.
"""

import asyncio
import logging
from contextlib import AbstractAsyncContextManager
from typing import Any, Final

import aiohttp
import orjson

from log_format.errors import FormatError
from log_format.frame import Frame, decode_frame
from sidecar.errors import (
    Denied,
    GatekeeperRefused,
    OverQuota,
    SidecarError,
    SubscriptionConflict,
    UnknownSubscription,
    UnknownTopic,
    retry_after,
)
from sidecar.uplink.credentials import CredentialSource
from sidecar.uplink.gateway import Gateway, Unreachable

log = logging.getLogger("sidegate.sidecar")

Control = dict[str, Any]

SILENCE_S_MAX: Final = 15.0
"""The other side says something every 5 s: three times nothing is a dead connection."""
OPEN_S_MAX: Final = 10.0
"""For the answer to the open message."""
UNKNOWN_TOPIC_ENDS: Final = frozenset(
    {"unknown_topic", "unknown_partition", "deleted", "topic_deleted"}
)
UNKNOWN_SUBSCRIPTION_ENDS: Final = frozenset({"unknown_subscription", "subscription_deleted"})
CONFLICT_ENDS: Final = frozenset(
    {
        "subscription_exists",
        "not_durable",
        "topic_mismatch",
        "member_replaced",
        "too_many_members",
        "too_many_subscriptions",
    }
)
PERMANENT_ENDS: Final = (
    UNKNOWN_TOPIC_ENDS
    | UNKNOWN_SUBSCRIPTION_ENDS
    | CONFLICT_ENDS
    | {"denied", "bad_request", "bad_subscription"}
)
"""Ends after which opening again cannot help."""


class Misunderstood(Unreachable):
    """The other side ended the stream for what was said on it. Opening anew may help, unless it
    was the opening itself."""


class StreamLink:
    """Not to be shared by readers; several tasks may send. Belongs to the event loop."""

    __slots__ = (
        "_consumed_bytes", "_credentials", "_credit_bytes", "_exit", "_gateway", "_socket",
        "_token",
    )  # fmt: skip

    def __init__(self, gateway: Gateway, credentials: CredentialSource, credit_bytes: int) -> None:
        self._gateway = gateway
        self._credentials = credentials
        self._credit_bytes = credit_bytes
        self._consumed_bytes = 0
        self._token = ""
        self._socket: aiohttp.ClientWebSocketResponse | None = None
        self._exit: AbstractAsyncContextManager[aiohttp.ClientWebSocketResponse] | None = None

    @property
    def connected(self) -> bool:
        """True between an opening and the next close; the other side may be gone nevertheless."""
        return self._socket is not None

    async def open(self, opening: Control) -> Control:
        """Connect and open; returns the `opened` message.

        Raises Unreachable where trying again may help, a SidecarError where it was refused.
        """
        manager = self._gateway.stream()
        self._socket = await manager.__aenter__()
        self._exit = manager
        pair = self._credentials.current
        self._token = pair.token if pair else ""
        self._consumed_bytes = 0
        try:
            await self.send({"type": "open", **opening, "credit_bytes": self._credit_bytes})
            async with asyncio.timeout(OPEN_S_MAX):
                opened = await self.receive()
            if isinstance(opened, Frame) or opened.get("type") != "opened":
                raise Unreachable("the stream began without being opened", sent=True)
        except TimeoutError as error:
            await self.close()
            raise Unreachable("the stream was not opened in time", sent=True) from error
        except BaseException:
            await self.close()
            raise
        return opened

    async def close(self) -> None:
        """Give the connection back."""
        manager, self._exit, self._socket = self._exit, None, None
        if manager is not None:
            await manager.__aexit__(None, None, None)

    async def receive(self) -> Frame | Control:
        """The next frame or control message; Unreachable where the connection is lost."""
        if self._socket is None:
            raise Unreachable("the stream is closed", sent=True)
        try:
            async with asyncio.timeout(SILENCE_S_MAX):
                message = await self._socket.receive()
        except TimeoutError as error:
            raise Unreachable(f"nothing was heard for {SILENCE_S_MAX:.0f} s", sent=True) from error
        if message.type is aiohttp.WSMsgType.BINARY:
            try:
                return decode_frame(message.data)
            except FormatError as error:
                raise Unreachable(f"a broken frame arrived: {error}", sent=True) from error
        if message.type is not aiohttp.WSMsgType.TEXT:
            raise Unreachable(f"the connection ended ({message.type.name})", sent=True)
        return parse_control(message.data)

    async def consumed(self, frame: Frame) -> None:
        """The frame's bytes are free again: grant them, in pieces worth a message."""
        self._consumed_bytes += frame.envelope.frame_len
        if self._consumed_bytes * 4 >= self._credit_bytes:
            granted, self._consumed_bytes = self._consumed_bytes, 0
            await self.send({"type": "credit", "bytes": granted})

    async def renew_token(self) -> None:
        """An open stream outlives its token: hand the fresh one over before the old one ends."""
        pair = self._credentials.current
        if pair is not None and self._token and pair.token != self._token:
            self._token = pair.token
            await self.send({"type": "token", "token": pair.token})

    async def send(self, control: Control) -> None:
        """Send, as well as can be: the next receive finds a connection that is lost."""
        if self._socket is None:
            return
        try:
            await self._socket.send_str(
                orjson.dumps(control, option=orjson.OPT_NON_STR_KEYS).decode()
            )
        except (aiohttp.ClientError, ConnectionError) as error:
            log.debug("stream send failed", extra={"fields": {"reason": str(error)}})


def parse_control(text: str | bytes) -> Control:
    """A control message; what ends the stream is raised."""
    try:
        control = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise Unreachable("a control message is not JSON", sent=True) from error
    if not isinstance(control, dict):
        raise Unreachable("a control message is not an object", sent=True)
    if control.get("type") == "end":
        raise stream_end(control)
    return control


def stream_end(control: Control) -> SidecarError | Unreachable:
    """What the other side's end means: an error for the app, or a reason to open again."""
    code, detail = str(control.get("code", "")), str(control.get("detail", ""))
    if code == "denied":
        members: dict[str, object] = {
            name: control[name] for name in ("decision_id", "reason") if name in control
        }
        return Denied(detail, members=members)
    if code in UNKNOWN_TOPIC_ENDS:
        return UnknownTopic(detail)
    if code in UNKNOWN_SUBSCRIPTION_ENDS:
        return UnknownSubscription(detail)
    if code in CONFLICT_ENDS:
        kept = {name: control[name] for name in ("differs",) if name in control}
        return SubscriptionConflict(detail, members={"reason": code, **kept})
    if code == "over_quota":
        return OverQuota(detail, headers=retry_after(1.0))
    if code in PERMANENT_ENDS:
        return GatekeeperRefused(f"the stream was ended: {code}: {detail}")
    kind = Misunderstood if code == "bad_message" else Unreachable
    return kind(f"{code}: {detail}", sent=True)
