"""Who may talk to the core: gatekeepers, and nobody else, on every route.

A gatekeeper is known by the SPIFFE id of its certificate, whose chain the TLS layer has verified,
or on a Unix socket by the user id that the kernel vouches for. The decisions are pure; the
middleware only looks at the connection. Nothing that a request says about itself counts.
"""

import asyncio
import logging
import socket
import struct
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware
from cryptography import x509

from hosting.spiffe import NotSpiffe, spiffe_id_of
from hosting.web import transport_certificate

IDENTITY: Final = web.RequestKey("core.identity", str)
"""The admitted caller: a SPIFFE id, or `uid:N`."""

_LINUX_UCRED: Final = struct.Struct("3i")
"""pid, uid, gid of unix(7), SO_PEERCRED."""
_BSD_SOL_LOCAL: Final = 0
_BSD_LOCAL_PEERCRED: Final = 1
_BSD_XUCRED: Final = struct.Struct("II")
"""cr_version and cr_uid, the first fields of struct xucred in <sys/ucred.h> of macOS."""
_BSD_XUCRED_BYTES: Final = 76
_CERTIFICATES_CACHED_MAX: Final = 256
"""Parsed certificates of gatekeepers: far more than there are gatekeepers."""


_REFUSAL_LINE_EVERY: Final = timedelta(seconds=10)
"""Often enough to see an attempt while it goes on; each line counts those since the last."""

log = logging.getLogger("sidegate.core")


class NotAdmitted(Exception):
    """The connection is not a gatekeeper's. Deliberately says no more than that and why."""

    headers = {"Connection": "close"}  # noqa: RUF012 - what the problem's answer carries


@dataclass(frozen=True, slots=True)
class Admission:
    """Who is let in: SPIFFE ids over TLS, user ids over a Unix socket."""

    spiffe_ids: frozenset[str] = frozenset()
    uids: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class _Certificate:
    spiffe_id: str
    not_after: datetime


@lru_cache(maxsize=_CERTIFICATES_CACHED_MAX)
def _read_certificate(der: bytes) -> _Certificate:
    spiffe_id = spiffe_id_of(der)
    return _Certificate(spiffe_id, x509.load_der_x509_certificate(der).not_valid_after_utc)


def admit_certificate(admission: Admission, der: bytes | None, now: datetime) -> str:
    """The caller's SPIFFE id, or NotAdmitted. The chain was verified during the handshake."""
    if der is None:
        raise NotAdmitted("the connection has no client certificate; only gatekeepers may call")
    try:
        certificate = _read_certificate(der)
    except NotSpiffe as error:
        raise NotAdmitted(f"the client certificate names no identity: {error}") from error
    if certificate.spiffe_id not in admission.spiffe_ids:
        raise NotAdmitted(
            f"{certificate.spiffe_id} is not a gatekeeper of this core; add it to `admit` if it is"
        )
    # The handshake checked this once; a connection may outlive its certificate.
    if now >= certificate.not_after:
        raise NotAdmitted(f"the certificate of {certificate.spiffe_id} has expired; connect anew")
    return certificate.spiffe_id


def admit_uid(admission: Admission, uid: int | None) -> str:
    """The caller as `uid:N`, or NotAdmitted."""
    if uid is None:
        raise NotAdmitted("the kernel does not say whose connection this is")
    if uid not in admission.uids:
        raise NotAdmitted(
            f"user {uid} is not a gatekeeper's; add it to `admit_uids` if a gatekeeper runs as it"
        )
    return f"uid:{uid}"


def peer_uid(connection: socket.socket) -> int | None:
    """The user id of the process that connected to a Unix socket, from the kernel."""
    linux = getattr(socket, "SO_PEERCRED", None)
    try:
        if linux is not None:
            data = connection.getsockopt(socket.SOL_SOCKET, linux, _LINUX_UCRED.size)
            return int(_LINUX_UCRED.unpack(data)[1])
        data = connection.getsockopt(_BSD_SOL_LOCAL, _BSD_LOCAL_PEERCRED, _BSD_XUCRED_BYTES)
        return int(_BSD_XUCRED.unpack_from(data)[1])
    except (OSError, struct.error):
        return None


class _Refusals:
    """Tells the operator who was refused, without letting a caller fill the log with it."""

    def __init__(self) -> None:
        self._next_line: datetime | None = None
        self._untold = 0

    def note(self, reason: str, remote: str | None, now: datetime) -> None:
        self._untold += 1
        if self._next_line is not None and now < self._next_line:
            return
        fields = {"reason": reason, "remote": remote, "refused": self._untold}
        log.warning("caller refused: not a gatekeeper", extra={"fields": fields})
        self._next_line = now + _REFUSAL_LINE_EVERY
        self._untold = 0


def admit_connection(admission: Admission, transport: asyncio.BaseTransport, now: datetime) -> str:
    """The caller at the other end of a connection, or NotAdmitted."""
    connection = transport.get_extra_info("socket")
    if connection is not None and connection.family == socket.AF_UNIX:
        return admit_uid(admission, peer_uid(connection))
    return admit_certificate(admission, transport_certificate(transport), now)


def admission_middleware(
    admission: Admission, now: Callable[[], datetime] = lambda: datetime.now(UTC)
) -> Middleware:
    """Refuses every request whose connection is not admitted, whatever its route."""
    refused = _Refusals()

    @web.middleware
    async def admit(request: web.Request, handler: Handler) -> web.StreamResponse:
        transport = request.transport
        if transport is None:
            raise ConnectionResetError("the caller has gone")
        try:
            request[IDENTITY] = admit_connection(admission, transport, now())
        except NotAdmitted as error:
            refused.note(str(error), request.remote, now())
            raise
        return await handler(request)

    return admit
