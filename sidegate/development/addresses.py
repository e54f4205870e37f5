"""Where the development services listen: defaults, overrides, and what stands in the way.

An override is the same variable that the service itself reads, so that
`SIDEGATE_SIDECAR_LISTEN=127.0.0.1:9100 make up` moves the sidecar, and whoever must find it is
told. May import `hosting.units`; must never know what the services do with their ports.
"""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass

from hosting.units import Address

LOOPBACK = "127.0.0.1"
# A listener on this machine answers a connection attempt in microseconds.
CONNECT_S_MAX = 0.5
# How far above a taken port a free one is looked for, to name it in the message.
SUGGESTIONS_TRIED = 100


@dataclass(frozen=True, slots=True)
class Listener:
    """One address that a service listens on, named by its configuration key.

    Without an `optional` one the service serves the rest all the same.
    """

    service: str
    key: str
    purpose: str
    port: int
    optional: bool = False

    @property
    def variable(self) -> str:
        return f"SIDEGATE_{self.service}_{self.key}".upper()

    @property
    def default(self) -> Address:
        return Address(LOOPBACK, self.port)


CORE = Listener("core", "listen", "the core's private API", 7443)
CORE_HEALTH = Listener("core", "health", "the core's health", 7444)
ISSUER = Listener("issuer", "listen", "the development issuer", 8446)
GATEKEEPER = Listener("gatekeeper", "listen", "the gatekeeper's API for sidecars", 8443)
GATEKEEPER_ADMIN = Listener("gatekeeper", "admin", "the gatekeeper's admin API", 8444)
GATEKEEPER_HEALTH = Listener("gatekeeper", "health", "the gatekeeper's health", 8445)
SIDECAR = Listener("sidecar", "listen", "the sidecar's HTTP API for apps", 9000)
SIDECAR_TCP = Listener("sidecar", "tcp", "the sidecar's TCP port for apps", 9001, optional=True)
LISTENERS = (
    CORE,
    CORE_HEALTH,
    ISSUER,
    GATEKEEPER,
    GATEKEEPER_ADMIN,
    GATEKEEPER_HEALTH,
    SIDECAR,
    SIDECAR_TCP,
)

Addresses = Mapping[Listener, Address]


class AddressError(ValueError):
    """An override that is no address."""


def chosen(
    environ: Mapping[str, str], kept: Mapping[Listener, str | None]
) -> dict[Listener, Address]:
    """Each listener's address: from its variable, from the user's own file (`kept`), or default.

    None in `kept` is an optional listener that the user's file leaves out, and so do we.
    """
    addresses = {}
    for listener in LISTENERS:
        text = environ.get(listener.variable) or kept.get(listener)
        if text is None and listener in kept:
            continue
        try:
            address = Address.parse(text) if text else listener.default
        except ValueError as error:
            raise AddressError(f"{listener.variable}: {error}") from error
        if not address.port:
            raise AddressError(
                f"{listener.variable}: `sidegate up` must know where each service listens; "
                f"give host:port with a port of its own, not {address}"
            )
        addresses[listener] = address
    return addresses


def free_addresses() -> dict[Listener, Address]:
    """A free loopback port for each listener. All are held until all are chosen."""
    with ExitStack() as held:
        addresses = {}
        for listener in LISTENERS:
            probe = held.enter_context(socket.socket())
            probe.bind((LOOPBACK, 0))
            addresses[listener] = Address(LOOPBACK, probe.getsockname()[1])
        return addresses


def variables(addresses: Addresses) -> dict[str, str]:
    """The environment that makes the services listen at `addresses`."""
    return {listener.variable: str(address) for listener, address in addresses.items()}


def reachable(address: Address) -> str:
    """`host:port` to connect to; a listener on every interface is reached by loopback."""
    host = LOOPBACK if address.host in {"", "0.0.0.0", "::"} else address.host  # noqa: S104
    return str(Address(host, address.port))


def is_free(address: Address) -> bool:
    """Whether a service could listen there now."""
    return _taken(address) is None


def obstacles(addresses: Addresses) -> Iterator[str]:
    """A sentence for each address that can't be listened on, with what to do about it."""
    yield from _shared(addresses)
    for listener, address in addresses.items():
        reason = _taken(address)
        if reason is not None:
            other = _suggestion(address, addresses.values())
            yield (
                f"{address} is {reason}, and {listener.purpose} listens there. Stop what uses it, "
                f"or choose another: {listener.variable}={other} make up"
            )


def _shared(addresses: Addresses) -> Iterator[str]:
    seen: dict[Address, Listener] = {}
    for listener, address in addresses.items():
        first = seen.setdefault(address, listener)
        if first is not listener:
            yield (
                f"{first.variable} and {listener.variable} are both {address}; "
                "each needs an address of its own"
            )


def _taken(address: Address) -> str | None:
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    with socket.socket(family) as probe:
        # As the services' own sockets do; without it a port that was closed a moment ago is busy.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address.host, address.port))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                return "taken"
            return f"not usable ({error.strerror})"
    # Where the other listens on every interface, some systems let the bind above succeed.
    host, _, port = reachable(address).rpartition(":")
    with socket.socket(family) as probe:
        probe.settimeout(CONNECT_S_MAX)
        return "taken" if probe.connect_ex((host.strip("[]"), int(port))) == 0 else None


def _suggestion(address: Address, used: Iterable[Address]) -> Address:
    used = set(used)
    port = address.port or 0
    for candidate in range(port + 100, min(port + 100 + SUGGESTIONS_TRIED, 65536)):
        other = Address(address.host, candidate)
        if other not in used and _taken(other) is None:
            return other
    return Address(address.host, 0)
