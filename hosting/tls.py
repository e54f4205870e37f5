"""Contexts that take up changed certificate files without a restart.

A server keeps one `ssl.SSLContext` object for its life, and each new handshake is made with the
latest files: `LiveContext` hands it to the context that was loaded last. Loading into one
OpenSSL context in place would not do: it never forgets a CA that a bundle has dropped, and it
keeps an old certificate whose key is of another type. A client takes a numbered snapshot, so
that it can pair a connection with whatever is bound to its certificate.
"""

import asyncio
import logging
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from hosting.environment import Environment, development_identity_problems
from hosting.lifecycle import Readiness
from hosting.spiffe import NotSpiffe, spiffe_id_of
from hosting.tls_contexts import (
    Bundles,
    Leaf,
    TlsError,
    TlsFiles,
    as_paths,
    client_context,
    private_key_warnings,
    read_leaf,
    server_context,
)

__all__ = [
    "Bundles",
    "ClientTls",
    "Leaf",
    "LiveContext",
    "NotSpiffe",
    "ReloadingContexts",
    "TlsError",
    "TlsFiles",
    "client_context",
    "private_key_warnings",
    "read_leaf",
    "server_context",
    "spiffe_id_of",
]

log = logging.getLogger("sidegate.hosting")

POLL_S: Final = 1.0
"""Five `stat` calls a second cost nothing; an hour-long certificate has no hurry beyond that."""

Stamp = tuple[int, int, int]
Stamps = tuple[Stamp | None, ...]


@dataclass(frozen=True, slots=True)
class ClientTls:
    """A client's context and the certificate that it presents, taken together."""

    version: int
    context: ssl.SSLContext
    leaf: Leaf

    @property
    def thumbprint(self) -> bytes:
        """SHA-256 of the certificate, to which RFC 8705 binds tokens."""
        return sha256(self.leaf.der).digest()


class LiveContext(ssl.SSLContext):
    """A server context whose handshakes are made with the context that `current` holds.

    asyncio and uvloop ask the context for each connection's TLS object; that is the one place
    where this differs from a plain one.
    """

    current: ssl.SSLContext

    def wrap_bio(self, *args: Any, **kwargs: Any) -> ssl.SSLObject:
        """A TLS object of the latest context."""
        return self.current.wrap_bio(*args, **kwargs)

    def wrap_socket(self, *args: Any, **kwargs: Any) -> ssl.SSLSocket:
        """A TLS socket of the latest context."""
        return self.current.wrap_socket(*args, **kwargs)


class ReloadingContexts:
    """The TLS contexts of one service: a component that watches their files.

    Made with the files of the moment, or TlsError. A change that makes no sound set of contexts
    is warned about, shown in `readiness` and tried again; the last good set stays in use.
    """

    def __init__(
        self,
        files: TlsFiles,
        *,
        client_ca: Bundles | None = None,
        client_optional: bool = False,
        ca: Bundles | None = None,
        environment: Environment = "development",
        name: str = "tls",
        poll_s: float = POLL_S,
    ) -> None:
        """`client_ca` verifies a server's callers, `ca` (or else the files' own) its servers.

        With `environment="production"` a certificate of the development trust domain is refused.
        """
        self.name = name
        self._environment = environment
        self._files = files
        self._client_ca = client_ca
        self._client_optional = client_optional
        self._ca = files.ca if ca is None else ca
        self._poll_s = poll_s
        self._watched = (
            files.certificate,
            files.key,
            *as_paths(client_ca),
            *as_paths(self._ca),
        )
        self._task: asyncio.Task[None] | None = None
        self._error: str | None = None
        self._warnings: tuple[str, ...] = ()
        self._callbacks: list[Callable[[ClientTls], None]] = []
        self._live = LiveContext(ssl.PROTOCOL_TLS_SERVER)
        self._stamps, self._client = self._load(version=1)

    @property
    def server(self) -> ssl.SSLContext:
        """The server side: one object for good, whose new handshakes use the latest files."""
        return self._live

    @property
    def version(self) -> int:
        """Counts the sets of files that were taken up, from 1."""
        return self._client.version

    @property
    def client(self) -> ClientTls:
        """The client side's latest set. A new `version` asks for new connections."""
        return self._client

    @property
    def leaf(self) -> Leaf:
        """The certificate in use."""
        return self._client.leaf

    def on_change(self, callback: Callable[[ClientTls], None]) -> None:
        """Call `callback` with each new set that is taken up, in the event loop."""
        self._callbacks.append(callback)

    async def start(self) -> None:
        """Begin to watch the files."""
        self._task = asyncio.create_task(self._watch(), name="tls files")

    async def drain(self) -> None:
        """Nothing to finish: certificates matter until the last connection ends."""

    async def stop(self) -> None:
        """End the watch."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    def readiness(self, now: datetime | None = None) -> Readiness:
        """Ready while the certificate in use is within its dates; tells of a refused change."""
        now = datetime.now(UTC) if now is None else now
        leaf = self.leaf
        detail: dict[str, object] = {
            "version": self.version,
            "not_after": leaf.not_after.isoformat(),
        }
        if leaf.spiffe_id is not None:
            detail["spiffe_id"] = leaf.spiffe_id
        if self._error is not None:
            detail["error"] = self._error
        if self._warnings:
            detail["warnings"] = list(self._warnings)
        valid = leaf.not_before <= now < leaf.not_after
        if not valid:
            detail["error"] = f"{self._files.certificate} is not valid now; renew it"
        return Readiness(valid, detail)

    def poll(self) -> bool:
        """Look at the files once and take up what changed. True if a new set is in use."""
        if self._look() == self._stamps:
            self._error = None
            return False
        try:
            self._stamps, self._client = self._load(version=self.version + 1)
        except TlsError as error:
            if str(error) != self._error:
                self._error = str(error)
                fields = {"error": str(error), "version": self.version}
                log.warning("changed tls files not taken up", extra={"fields": fields})
            return False
        self._error = None
        log.info(
            "changed tls files taken up",
            extra={"fields": {"version": self.version, "not_after": str(self.leaf.not_after)}},
        )
        for callback in self._callbacks:
            callback(self._client)
        return True

    def _load(self, version: int) -> tuple[Stamps, ClientTls]:
        """A whole new set and the files that it is of; or TlsError, and nothing has changed."""
        stamps = self._look()
        server = server_context(
            self._files, client_ca=self._client_ca, client_optional=self._client_optional
        )
        client = client_context(self._files, self._ca, check_hostname=False)
        leaf = read_leaf(self._files.certificate)
        self._refuse_development(leaf)
        if self._look() != stamps:
            # What was read may be of two sets, and a thumbprint of neither.
            raise TlsError(f"{self._files.certificate} and its key changed while they were read")
        self._warn()
        self._live.current = server
        return stamps, ClientTls(version, client, leaf)

    def _refuse_development(self, leaf: Leaf) -> None:
        file = str(self._files.certificate)
        own = leaf.spiffe_id or ""
        for key, text in development_identity_problems(self._environment, file, own):
            raise TlsError(f"{key}: {text}")

    def _warn(self) -> None:
        warnings = tuple(private_key_warnings(self._files.key))
        for warning in warnings:
            if warning not in self._warnings:
                log.warning(
                    "private key file is open to others", extra={"fields": {"file": warning}}
                )
        self._warnings = warnings

    def _look(self) -> Stamps:
        return tuple(_stamp(path) for path in self._watched)

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(self._poll_s)
            self.poll()


def _stamp(path: Path) -> Stamp | None:
    """What changes when a file is rewritten, replaced, or reached through another link."""
    try:
        status = path.stat()
    except OSError:
        return None
    return (status.st_mtime_ns, status.st_size, status.st_ino)
