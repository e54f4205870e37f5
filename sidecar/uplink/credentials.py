"""Certificate and token, always as a pair, and always fresh: a component that renews them.

A token is bound to the certificate that it was fetched with (RFC 8705), so both change together:
when the files change, a token for the new certificate is fetched before either is used. The
protocol is in `oauth.py`, the schedule in `token_schedule.py`.
"""

import asyncio
import logging
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import aiohttp
import orjson

from hosting.tls import ClientTls, ReloadingContexts, TlsFiles, client_context
from sidecar.uplink.backoff import Backoff
from sidecar.uplink.oauth import (
    Client,
    Grant,
    OAuthFailure,
    discovery_urls,
    parse_grant,
    token_endpoint,
    token_request,
)
from sidecar.uplink.token_schedule import TokenLife

log = logging.getLogger("sidegate.sidecar")

ISSUER_TIMEOUT_S: Final = 10.0
"""For one request to the issuer; the next try comes soon enough."""
ANSWER_BYTES_MAX: Final = 256 * 1024
"""Metadata and token answers have a few kilobytes."""
FILES_POLL_S: Final = 1.0
"""How soon changed certificate files are noticed here; they are read by `hosting` as often."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """What one connection to a gatekeeper needs."""

    tls: ClientTls
    token: str
    life: TokenLife


class CredentialSource:
    """Keeps `current` good: a hosting component. `error` says why there is none, or no newer."""

    name = "credentials"

    def __init__(
        self,
        files: TlsFiles,
        contexts: ReloadingContexts,
        client: Client,
        *,
        issuer_ca: Path | None,
        backoff: Backoff | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._files = files
        self._contexts = contexts
        self._client = client
        self._issuer_ca = issuer_ca
        self._backoff = backoff or Backoff(first_s=0.2, max_s=15.0)
        self._clock = clock
        self._renew = asyncio.Event()
        self._fresh = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._current: Credentials | None = None
        self._endpoint: str | None = None
        self.error: str | None = "no token was asked for yet"

    @property
    def current(self) -> Credentials | None:
        """The pair to use now; None before the first token and after the last one's end."""
        if self._current is None or self._current.life.is_over(self._clock()):
            return None
        return self._current

    async def wait(self) -> Credentials:
        """The pair to use, as soon as there is one."""
        while (pair := self.current) is None:
            self._fresh.clear()
            await self._fresh.wait()
        return pair

    def refused(self, token: str) -> None:
        """A gatekeeper did not take this token: get another one now, not at its time."""
        if self._current is not None and self._current.token == token:
            self._current = None
            self._renew.set()

    async def start(self) -> None:
        """Begin to fetch. Neither issuer nor gatekeeper needs to be there yet."""
        self._task = asyncio.create_task(self._keep(), name="credentials")

    async def drain(self) -> None:
        """Nothing to finish: batches that are under way still need their token."""

    async def stop(self) -> None:
        """End the renewal."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def _keep(self) -> None:
        failures = 0
        while True:
            tls = self._contexts.client
            try:
                grant = await self._fetch()
            except (OAuthFailure, aiohttp.ClientError, TimeoutError, OSError) as error:
                failures += 1
                self._failed(error)
                delay = self._backoff.delay_s(failures, random.random())  # noqa: S311 - jitter
                await self._pause(self._clock() + max(delay, 0.05), tls)
                continue
            failures = 0
            now = self._clock()
            life = TokenLife(now, now + grant.expires_in_s)
            self._current = Credentials(tls, grant.access_token, life)
            if self.error is not None:
                log.info("access token received", extra={"fields": {"life_s": grant.expires_in_s}})
            self.error = None
            self._fresh.set()
            await self._pause(life.refresh_at(random.random()), tls)  # noqa: S311 - jitter

    async def _pause(self, until: float, tls: ClientTls) -> None:
        """Wait until then, until a token was refused, or until the files have changed."""
        self._renew.clear()
        while (left := until - self._clock()) > 0 and self._contexts.version == tls.version:
            try:
                async with asyncio.timeout(min(left, FILES_POLL_S)):
                    await self._renew.wait()
            except TimeoutError:
                continue
            return

    def _failed(self, error: BaseException) -> None:
        text = f"no token from {self._client.issuer}: {error or type(error).__name__}"
        if text != self.error:
            log.warning("no access token", extra={"fields": {"error": text}})
        self.error = text
        self._endpoint = None

    async def _fetch(self) -> Grant:
        context = client_context(self._files, self._issuer_ca)
        timeout = aiohttp.ClientTimeout(total=ISSUER_TIMEOUT_S)
        connector = aiohttp.TCPConnector(ssl=context, limit=1)
        async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
            if self._endpoint is None:
                self._endpoint = await self._discover(session)
            headers, body = token_request(self._client, self._endpoint)
            async with session.post(
                self._endpoint, data=body, headers=headers, allow_redirects=False
            ) as response:
                return parse_grant(response.status, await _document(response))

    async def _discover(self, session: aiohttp.ClientSession) -> str:
        status = 0
        for url in discovery_urls(self._client.issuer):
            async with session.get(url, allow_redirects=False) as response:
                status = response.status
                if status == 200:
                    return token_endpoint(await _document(response), self._client.issuer)
        raise OAuthFailure(f"the issuer answers its metadata with status {status}; check its URL")


async def _document(response: aiohttp.ClientResponse) -> object:
    body = await response.content.read(ANSWER_BYTES_MAX + 1)
    while not response.content.at_eof() and len(body) <= ANSWER_BYTES_MAX:
        body += await response.content.read(ANSWER_BYTES_MAX + 1 - len(body))
    if len(body) > ANSWER_BYTES_MAX:
        raise OAuthFailure(f"the issuer's answer has over {ANSWER_BYTES_MAX} bytes")
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
