"""The development issuer's clients, read from their file at the start and whenever it changes.

A file that can't be used leaves the last good clients in force, and the log and `/readyz` say so.
Polling, because it works the same on every system; a look costs one `stat`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from pathlib import Path

from joserfc.errors import JoseError
from joserfc.jwk import KeySet

from hosting.config import ConfigError, load_config
from hosting.lifecycle import Readiness, StartError
from sidegate.development.issuer import Client, read_keys
from sidegate.development.issuer_config import ClientConfig, ClientsConfig

log = logging.getLogger("sidegate.issuer")

# A service that was just added is known before its sidecar has started.
POLL_S = 0.2

Stamp = tuple[int, int, int]


class ClientsFile:
    """A hosting component. `changed` is called with all clients, at the start too.

    Belongs to one event loop.
    """

    name = "clients"

    def __init__(
        self,
        path: Path | None,
        fixed: Mapping[str, ClientConfig],
        changed: Callable[[list[Client]], None],
        *,
        poll_s: float = POLL_S,
    ) -> None:
        """`fixed` are the clients of the configuration itself, which never change."""
        self._path = path
        self._fixed = fixed
        self._changed = changed
        self._poll_s = poll_s
        self._seen: Stamp | None = None
        self._task: asyncio.Task[None] | None = None
        self._count = 0
        self._error: str | None = None

    async def start(self) -> None:
        """Read the file, which must be good, and watch it from then on."""
        self._seen = _stamp(self._path)
        try:
            self._take()
        except (ConfigError, StartError) as error:
            raise StartError(str(error)) from error
        if self._path is not None:
            self._task = asyncio.create_task(self._watch(), name="issuer clients")

    async def drain(self) -> None:
        """Nothing to finish."""

    async def stop(self) -> None:
        """End the watch."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    def readiness(self) -> Readiness:
        """Always ready, with the last good clients; tells of a refused change."""
        detail: dict[str, object] = {"clients": self._count}
        if self._error is not None:
            detail["error"] = self._error
        return Readiness(ready=True, detail=detail)

    def poll(self) -> None:
        """Look at the file once and take up what changed."""
        stamp = _stamp(self._path)
        if stamp == self._seen:
            return
        self._seen = stamp
        try:
            self._take()
        except (ConfigError, StartError) as error:
            self._error = str(error)
            log.warning("changed clients not taken up", extra={"fields": {"error": self._error}})
            return
        self._error = None
        log.info("changed clients taken up", extra={"fields": {"clients": self._count}})

    def _take(self) -> None:
        listed = dict(self._fixed)
        if self._path is not None:
            read = load_config(ClientsConfig, service="issuer", path=self._path, environ={})
            twice = sorted(listed.keys() & read.clients.keys())
            if twice:
                raise StartError(
                    f"{self._path}: clients.{twice[0]} is in the issuer's configuration too; "
                    "keep it in one of them"
                )
            listed |= read.clients
        clients = [_client(name, config) for name, config in listed.items()]
        self._changed(clients)
        self._count = len(clients)

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(self._poll_s)
            self.poll()


def key_set(file: Path) -> KeySet:
    """The JWK Set in a file, or StartError that names it."""
    try:
        return read_keys(file.read_bytes())
    except OSError as error:
        raise StartError(f"{file} can't be read: {error.strerror}") from error
    except (ValueError, TypeError, KeyError, JoseError) as error:
        raise StartError(f"{file} holds no JWK Set: {error}") from error


def _client(client_id: str, config: ClientConfig) -> Client:
    keys = None if config.keys is None else key_set(config.keys)
    return Client(client_id, config.spiffe, config.scopes, config.claims, keys)


def _stamp(path: Path | None) -> Stamp | None:
    """What changes when a file is rewritten or replaced."""
    if path is None:
        return None
    try:
        status = path.stat()
    except OSError:
        return None
    return (status.st_mtime_ns, status.st_size, status.st_ino)
