"""Listening sockets: TCP and Unix, with an error that says what to change.

May import the units; knows nothing of HTTP. A Unix socket's file is narrow before anybody can
connect, a dead one is replaced, and a live one is never taken over.
"""

import asyncio
import contextlib
import errno
import socket
import ssl
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from hosting.lifecycle import StartError
from hosting.units import Address

OWNER_ONLY: Final = 0o600
"""The mode of a Unix socket's file unless the caller widens it."""


class PortTaken(StartError):
    """Somebody else listens at the address."""


class CannotListen(StartError):
    """The address can't be listened at, for another reason than being taken."""


@dataclass(frozen=True, slots=True)
class TlsListening:
    """How connections of a listener are secured, and how long a handshake and a farewell take."""

    context: ssl.SSLContext
    handshake_s: float
    shutdown_s: float


@dataclass(frozen=True, slots=True)
class Listener:
    """An open listener. `close` once; connections that were accepted go on."""

    server: asyncio.Server
    address: Address
    inode: int | None
    """Of the Unix socket's file, so that only our own is removed."""

    def close(self) -> None:
        """Accept nothing more."""
        self.server.close()
        path = self.address.path
        if path is not None:
            with contextlib.suppress(FileNotFoundError):
                if path.stat().st_ino == self.inode:
                    path.unlink()


async def listen(
    protocol: Callable[[], asyncio.Protocol],
    address: Address,
    *,
    setting: str,
    backlog: int,
    tls: TlsListening | None = None,
    socket_mode: int = OWNER_ONLY,
) -> Listener:
    """Listen at `address`, or PortTaken, or CannotListen. `setting` is the key that says where.

    The listener's address has the port that port 0 became.
    """
    loop = asyncio.get_running_loop()
    secured: dict[str, Any] = {"backlog": backlog}
    if tls is not None:
        secured["ssl"] = tls.context
        secured["ssl_handshake_timeout"] = tls.handshake_s
        secured["ssl_shutdown_timeout"] = tls.shutdown_s
    try:
        if address.path is not None:
            bound, inode = _bind(address.path, socket_mode)
            with _closed_on_error(bound):
                server = await loop.create_unix_server(protocol, sock=bound, **secured)
            return Listener(server, address, inode)
        server = await loop.create_server(
            protocol, address.host or None, address.port or 0, **secured
        )
    except OSError as error:
        raise _explained(error, address, setting) from error
    port: int = server.sockets[0].getsockname()[1]
    return Listener(server, Address(address.host, port), None)


def _explained(error: OSError, address: Address, setting: str) -> StartError:
    if error.errno == errno.EADDRINUSE:
        return PortTaken(
            f"{address} is already in use; stop what uses it, or set `{setting}` in the "
            "configuration to another address"
        )
    reason = error.strerror or str(error)
    return CannotListen(f"{address} can't be listened at ({reason}); set `{setting}` to another")


def _bind(path: Path, mode: int) -> tuple[socket.socket, int]:
    """A Unix socket bound to `path`, and the inode of its file."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    if path.is_socket():
        _remove_dead(path)
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    with _closed_on_error(bound):
        bound.bind(str(path))
        # Nobody can connect before `listen`: the mode is narrow in time.
        path.chmod(mode)
        return bound, path.stat().st_ino


def _remove_dead(path: Path) -> None:
    """Remove the socket file of a process that is gone, or fail as a taken address does."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        # A live listener whose queue is full would block, and is in use as well.
        probe.setblocking(False)
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            path.unlink(missing_ok=True)
            return
        except BlockingIOError:
            pass
    raise OSError(errno.EADDRINUSE, "in use")


@contextlib.contextmanager
def _closed_on_error(bound: socket.socket) -> Iterator[None]:
    try:
        yield
    except BaseException:
        bound.close()
        raise
