"""Sends one delivery and says what came of it; whatever the app does, it ends in time.

The verdict is the status alone. Of the answer's body a little is read, so that the connection can
be used again; an app that sends more, drips or hangs costs a connection and no memory. Addresses
are judged when a connection is made, and the connection goes to the address that was judged.
"""

import asyncio
import logging
import socket
import ssl
import time
from collections.abc import Mapping
from importlib.metadata import version
from ipaddress import ip_address
from typing import Final

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from sidecar.destination import IP, DestinationGuard, Target, canonical_address
from sidecar.errors import ForbiddenDestination
from sidecar.push_queue import Verdict
from sidecar.retry_after import parse_retry_after

log = logging.getLogger("sidegate.sidecar")

ANSWER_BYTES_MAX: Final = 64 * 1024
"""Read of an answer's body; of more than this nothing is kept, the connection included."""
EXCERPT_CHARACTERS_MAX: Final = 120
"""Of a refusal's body, for whoever asks why a subscription is stuck."""
BODY_S_MAX: Final = 1.0
"""For the rest of an answer whose status is known: an app that drips holds no place for longer."""
CONNECT_S_MAX: Final = 10.0
"""A destination that has not taken a connection by then cannot be reached."""
IDLE_S_MAX: Final = 10.0
"""Kept connections are closed after this: many servers close theirs after 15 s or less."""
QUIET_STATUSES: Final = frozenset({429, 503})
"""With Retry-After, these speak for the whole app, not for one message."""


class GuardedResolver(AbstractResolver):
    """Resolves names and lets only those addresses through that the guard allows."""

    def __init__(self, guard: DestinationGuard) -> None:
        self._guard = guard

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """The allowed addresses of a name. Raises ForbiddenDestination where all are refused."""
        target = Target("http", host, port, "/", None)
        allowed = await self.allowed(target, family)
        return [
            ResolveResult(
                hostname=host,
                host=str(address),
                port=port,
                family=socket.AF_INET if address.version == 4 else socket.AF_INET6,
                proto=0,
                flags=int(socket.AI_NUMERICHOST | socket.AI_NUMERICSERV),
            )
            for address in allowed
        ]

    async def allowed(
        self, target: Target, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[IP]:
        """The addresses of the target's name that may be called. OSError where it has none."""
        self._guard.check_name(target)
        own = await self._own_addresses(target.port)
        refused: ForbiddenDestination | None = None
        found: list[IP] = []
        literal = target.address
        candidates = await addresses_of(target.host, family) if literal is None else [literal]
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

    async def close(self) -> None:
        """Nothing is kept."""

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


async def addresses_of(host: str, family: socket.AddressFamily = socket.AF_UNSPEC) -> list[IP]:
    """A name's addresses in their canonical form, in the system's order."""
    rows = await asyncio.get_running_loop().getaddrinfo(
        host, None, family=family, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG
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
        self._connections_max = connections_max
        self._context = context
        self._session: aiohttp.ClientSession | None = None

    async def start(self) -> None:
        """Connections are made when they are needed."""
        connector = aiohttp.TCPConnector(
            resolver=self._resolver,
            use_dns_cache=False,
            limit=self._connections_max,
            keepalive_timeout=IDLE_S_MAX,
            ssl=self._context if self._context is not None else True,
        )
        session = aiohttp.ClientSession(
            connector=connector,
            auto_decompress=False,
            cookie_jar=aiohttp.DummyCookieJar(),
            skip_auto_headers=("Accept-Encoding", "Accept"),
            headers={"User-Agent": f"Sidegate/{version('sidegate')}"},
        )
        # aiohttp would repeat a PUT by itself when a kept connection breaks: then the app could
        # have it twice, and the attempt would be counted once.
        session._retry_connection = False
        self._session = session

    async def drain(self) -> None:
        """Those who send wait for their own."""

    async def stop(self) -> None:
        """Close every connection."""
        if self._session is not None:
            await self._session.close()

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
        if self._session is None:
            return Verdict(delivered=False, reached=False, error="the sidecar is stopping")
        timeout = aiohttp.ClientTimeout(
            total=timeout_s, sock_connect=min(timeout_s, CONNECT_S_MAX), ceil_threshold=3600
        )
        try:
            if target.address is not None:
                # aiohttp asks no resolver about an address.
                await self._resolver.allowed(target)
            async with self._session.request(
                method,
                URL(target.url, encoded=True),
                data=body,
                headers=headers,
                allow_redirects=False,
                timeout=timeout,
            ) as response:
                excerpt = await _read_some(response)
                return judge(
                    response.status, response.headers.get("Retry-After"), time.time(), excerpt
                )
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            return Verdict(delivered=False, reached=False, error=_text(error))
        except ForbiddenDestination as error:
            return Verdict(delivered=False, reached=False, error=str(error))
        except TimeoutError:
            return Verdict(
                delivered=False, reached=True, error=f"no answer within {timeout_s * 1000:.0f} ms"
            )
        except (aiohttp.ClientError, OSError, ValueError) as error:
            return Verdict(delivered=False, reached=True, error=_text(error))


def judge(status: int, retry_after: str | None, now_s: float, excerpt: str = "") -> Verdict:
    """What an answer's status means."""
    if 200 <= status < 300:
        return Verdict(delivered=True, reached=True, status=status)
    wait_s = parse_retry_after(retry_after, now_s)
    error = f"the app answered {status}" + (f": {excerpt}" if excerpt else "")
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


async def _read_some(response: aiohttp.ClientResponse) -> str:
    """Read the body as far as it is short; the start of it, where it is a refusal's."""
    head = b""
    size = 0
    try:
        async with asyncio.timeout(BODY_S_MAX):
            async for chunk in response.content.iter_any():
                size += len(chunk)
                if len(head) < EXCERPT_CHARACTERS_MAX:
                    head += chunk[:EXCERPT_CHARACTERS_MAX]
                if size > ANSWER_BYTES_MAX:
                    response.close()
                    break
    except (aiohttp.ClientError, TimeoutError, OSError):
        # The status is known, and it is what counts.
        response.close()
    if 200 <= response.status < 300:
        return ""
    text = head[:EXCERPT_CHARACTERS_MAX].decode("utf-8", "replace")
    return "".join(each if each.isprintable() else " " for each in text).strip()


def _text(error: BaseException) -> str:
    return (str(error) or type(error).__name__)[:300]
