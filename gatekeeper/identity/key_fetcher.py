"""Fetches an issuer's keys: metadata, then key set, over HTTPS, with no trust in the other side.

A thin shell around `discovery.py` and `key_set.py`. Redirects are refused, sizes and times are
bounded, nothing is decompressed, no proxy is taken from the environment, no cookie is kept.
"""

import asyncio
import ssl
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

import aiohttp

from gatekeeper.identity.discovery import BadMetadata, jwks_uri_of, metadata_urls
from gatekeeper.identity.key_set import BadKeySet, KeySet, parse_key_set
from gatekeeper.identity.trust import IssuerSettings

FETCH_S_MAX: Final = 10.0
"""Metadata and keys together. A request may be waiting for them; a slower issuer is down."""
DOCUMENT_BYTES_MAX: Final = 256 * 1024
"""One document. The largest key sets in use have about 20 KiB."""
_CONNECT_S_MAX: Final = 5.0
_READ_BYTES: Final = 16 * 1024


class KeyFetchError(Exception):
    """The issuer's keys could not be had. The message says from where and why."""


@dataclass(frozen=True, slots=True)
class _Answer:
    url: str
    status: int
    body: bytes


async def fetch_keys(settings: IssuerSettings, *, seconds_max: float = FETCH_S_MAX) -> KeySet:
    """The issuer's present keys. Raises KeyFetchError."""
    try:
        # Reading the system's CAs takes tens of milliseconds: not in the event loop. A new context
        # each time also takes up a changed CA file.
        context = await asyncio.to_thread(tls_context, settings)
        async with asyncio.timeout(seconds_max), _session(context) as session:
            jwks_uri = settings.jwks_uri or await _discover(session, settings)
            answer = await _get(session, jwks_uri)
            if answer.status != HTTPStatus.OK:
                raise KeyFetchError(f"{jwks_uri} answered {answer.status}")
            return parse_key_set(answer.body, settings.algorithms)
    except TimeoutError as error:
        raise KeyFetchError(f"{settings.issuer} took more than {seconds_max:g} s") from error
    except (BadMetadata, BadKeySet) as error:
        raise KeyFetchError(f"{settings.issuer}: {error}") from error
    except (aiohttp.ClientError, OSError) as error:
        raise KeyFetchError(f"{settings.issuer} can't be reached: {error}") from error


async def _discover(session: aiohttp.ClientSession, settings: IssuerSettings) -> str:
    statuses = []
    for url in metadata_urls(settings.issuer):
        answer = await _get(session, url)
        if answer.status == HTTPStatus.OK:
            return jwks_uri_of(answer.body, settings)
        statuses.append(f"{url} answered {answer.status}")
        if not HTTPStatus.BAD_REQUEST <= answer.status < HTTPStatus.INTERNAL_SERVER_ERROR:
            break
    raise KeyFetchError(f"no metadata: {', '.join(statuses)}")


async def _get(session: aiohttp.ClientSession, url: str) -> _Answer:
    async with session.get(url, allow_redirects=False) as response:
        if HTTPStatus.MULTIPLE_CHOICES <= response.status < HTTPStatus.BAD_REQUEST:
            raise KeyFetchError(
                f"{url} redirects, which is refused; configure the address it really has"
            )
        if response.headers.get("Content-Encoding", "identity").lower() != "identity":
            raise KeyFetchError(f"{url} sent a compressed answer although none was asked for")
        body = bytearray()
        async for chunk in response.content.iter_chunked(_READ_BYTES):
            body += chunk
            if len(body) > DOCUMENT_BYTES_MAX:
                raise KeyFetchError(f"{url} sent more than {DOCUMENT_BYTES_MAX} bytes")
        return _Answer(url, response.status, bytes(body))


def _session(context: ssl.SSLContext) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(ssl=context, force_close=True),
        timeout=aiohttp.ClientTimeout(total=FETCH_S_MAX, connect=_CONNECT_S_MAX),
        headers={"Accept": "application/json", "Accept-Encoding": "identity"},
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
        trust_env=False,
    )


def tls_context(settings: IssuerSettings) -> ssl.SSLContext:
    """What the issuer's server has to prove: a name that its CA, or the system's, vouches for."""
    context = ssl.create_default_context(cafile=settings.ca)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context
