"""Sends deliveries over kept connections; whatever the app does, each ends in time.

Addresses are judged when a connection is made, and the connection goes to the address that was
judged: a name cannot be bound anew in between. No proxy of the environment is asked, no redirect
followed, no request repeated.
"""

import asyncio
import socket
import ssl
from collections.abc import Mapping
from importlib.metadata import version
from ipaddress import ip_address
from typing import Final

from sidecar.errors import ForbiddenDestination
from sidecar.push.destination import IP, DestinationGuard, Target, canonical_address
from sidecar.push.push_queue import Verdict
from sidecar.push.webhook_connection import WebhookConnection

CONNECT_S_MAX: Final = 10.0
"""A destination that has not taken a connection by then cannot be reached."""
IDLE_S_MAX: Final = 2.0
"""Kept connections are closed after this: one that the app closes just when it is used again
costs an attempt, and apps close theirs after 5 s or more."""


class GuardedResolver:
    """Resolves names and lets only those addresses through that the guard allows."""

    def __init__(self, guard: DestinationGuard) -> None:
        self._guard = guard

    async def allowed(self, target: Target) -> list[IP]:
        """The addresses of the target that may be called.

        Raises ForbiddenDestination where all are refused, OSError where the name has none.
        """
        self._guard.check_name(target)
        own = await self._own_addresses(target.port)
        refused: ForbiddenDestination | None = None
        found: list[IP] = []
        literal = target.address
        candidates = await addresses_of(target.host) if literal is None else [literal]
        for address in candidates:
            try:
                self._guard.check_address(target, address, own)
            except ForbiddenDestination as error:
                refused = error
            else:
                found.append(address)
        if refused is not None and not found:
            raise refused
        return found

    async def _own_addresses(self, port: int) -> frozenset[tuple[IP, int]]:
        found: set[tuple[IP, int]] = set()
        for host, own_port in self._guard.own_endpoints:
            if own_port == port:
                try:
                    found |= {(each, port) for each in await addresses_of(host)}
                except OSError:
                    # A gatekeeper whose name cannot be resolved cannot be called by mistake.
                    continue
        return frozenset(found)


async def addresses_of(host: str) -> list[IP]:
    """A name's addresses in their canonical form, in the system's order."""
    rows = await asyncio.get_running_loop().getaddrinfo(
        host, None, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG
    )
    found = [canonical_address(ip_address(str(row[4][0]).partition("%")[0])) for row in rows]
    return list(dict.fromkeys(found))


class WebhookClient:
    """A hosting component. Belongs to the event loop."""

    name = "webhooks"

    def __init__(
        self, guard: DestinationGuard, *, connections_max: int, context: ssl.SSLContext | None
    ) -> None:
        self._resolver = GuardedResolver(guard)
        self._guard = guard
        self._places = asyncio.Semaphore(connections_max)
        self._context = context
        self._idle: dict[tuple[str, str, int], list[WebhookConnection]] = {}
        self._busy: set[WebhookConnection] = set()
        self._sweeper: asyncio.TimerHandle | None = None
        self._running = False
        self._agent = f"User-Agent: Sidegate/{version('sidegate')}\r\n"

    async def start(self) -> None:
        """Connections are made when they are needed."""
        self._running = True

    async def drain(self) -> None:
        """Those who send wait for their own."""

    async def stop(self) -> None:
        """Close every connection."""
        self._running = False
        if self._sweeper is not None:
            self._sweeper.cancel()
        for connection in [*self._busy, *(each for idle in self._idle.values() for each in idle)]:
            connection.close()
        self._idle.clear()

    async def check(self, target: Target) -> None:
        """Refuse a destination that would be refused at every send.

        A name that the list allows by name may not exist yet; any other must, to be judged.
        """
        by_name = self._guard.check_name(target)
        try:
            await self._resolver.allowed(target)
        except OSError as error:
            if not by_name:
                raise ForbiddenDestination(
                    f"{target.host} cannot be resolved ({error.strerror}), so that its address "
                    "can be judged; add the name to push.allow, or use an address",
                    members={"rule": "allow_list", "config_key": "push.allow"},
                ) from error

    async def post(
        self, target: Target, method: str, headers: Mapping[str, str], body: bytes, timeout_s: float
    ) -> Verdict:
        """Send, and judge what came back. Never raises for anything that the app does."""
        async with self._places:
            if not self._running:
                return Verdict(delivered=False, reached=False, error="the sidecar is stopping")
            key = (target.scheme, target.host, target.port)
            connection = self._take(key)
            if connection is None:
                try:
                    connection = await self._connect(target, min(timeout_s, CONNECT_S_MAX))
                except (OSError, ForbiddenDestination) as error:
                    reason = str(error) or type(error).__name__
                    return Verdict(delivered=False, reached=False, error=reason[:300])
            self._busy.add(connection)
            try:
                head = self._head(target, method, headers, len(body))
                return await connection.exchange(head, body, timeout_s)
            finally:
                self._busy.discard(connection)
                self._keep(key, connection)

    def _head(self, target: Target, method: str, headers: Mapping[str, str], size: int) -> bytes:
        host = f"[{target.host}]" if ":" in target.host else target.host
        port = "" if target.port == (443 if target.scheme == "https" else 80) else f":{target.port}"
        lines = [f"{name}: {value}" for name, value in headers.items()]
        text = "\r\n".join(lines)
        if text.count("\n") != max(0, len(lines) - 1) or text.count("\r") != text.count("\n"):
            raise ValueError("a header with a line end in it")
        return (
            f"{method} {target.path} HTTP/1.1\r\nHost: {host}{port}\r\n{self._agent}"
            f"Content-Length: {size}\r\n{text}\r\n\r\n"
        ).encode("ascii")

    async def _connect(self, target: Target, timeout_s: float) -> WebhookConnection:
        """Connect to an address that was judged just now. OSError where none takes it."""
        loop = asyncio.get_running_loop()
        secured = target.scheme == "https"
        if secured and self._context is None:
            self._context = await asyncio.to_thread(ssl.create_default_context)
        failure: OSError = OSError(f"{target.host} has no address")
        try:
            async with asyncio.timeout(timeout_s):
                for address in await self._resolver.allowed(target):
                    try:
                        _, connection = await loop.create_connection(
                            WebhookConnection,
                            str(address),
                            target.port,
                            ssl=self._context if secured else None,
                            server_hostname=target.host if secured else None,
                        )
                    except OSError as error:
                        failure = error
                    else:
                        return connection
        except TimeoutError as error:
            raise OSError(f"no connection within {timeout_s * 1000:.0f} ms") from error
        raise failure

    def _take(self, key: tuple[str, str, int]) -> WebhookConnection | None:
        idle = self._idle.get(key)
        while idle:
            connection = idle.pop()
            if connection.open:
                return connection
        return None

    def _keep(self, key: tuple[str, str, int], connection: WebhookConnection) -> None:
        if not connection.open or not self._running:
            connection.close()
            return
        loop = asyncio.get_running_loop()
        connection.idle_since = loop.time()
        self._idle.setdefault(key, []).append(connection)
        if self._sweeper is None:
            self._sweeper = loop.call_later(IDLE_S_MAX, self._sweep)

    def _sweep(self) -> None:
        """Close what was not used for a while; the longest idle stand first."""
        self._sweeper = None
        loop = asyncio.get_running_loop()
        oldest = loop.time() - IDLE_S_MAX
        for key, idle in list(self._idle.items()):
            for connection in [each for each in idle if each.idle_since <= oldest]:
                idle.remove(connection)
                connection.close()
            if not idle:
                del self._idle[key]
        if self._idle:
            self._sweeper = loop.call_later(IDLE_S_MAX / 2, self._sweep)
