"""The open connections of :8443: whose they are, how old, and how many each caller holds.

A connection's certificate is read once, when its handshake is done. The registry is told of each
connection's begin and end by the server and asked by the handlers; it decides, they act. Knows
nothing of HTTP. Used from the event loop only.
"""

import ssl
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Protocol

from hosting.spiffe import NotSpiffe, spiffe_id_of

_DER = 2
"""`_ssl.ENCODING_DER`: what Python before 3.13 wants in order to give a certificate as bytes."""


class Transport(Protocol):
    """The part of an asyncio transport that is needed here."""

    def get_extra_info(self, name: str, default: Any = None) -> Any: ...
    def abort(self) -> None: ...


class TooManyConnections(Exception):
    """A caller holds more connections than one may. The message names the limit."""


@dataclass(slots=True, eq=False)
class Connection:
    """One TLS connection. `chain` is what the peer sent, leaf first, as DER.

    `owner` is the principal that first authenticated on it; None until then.
    """

    transport: Transport
    chain: tuple[bytes, ...]
    opened_s: float
    owner: str | None = None

    @property
    def thumbprint(self) -> bytes:
        """SHA-256 of the leaf; of nothing where no certificate came."""
        return sha256(self.chain[0] if self.chain else b"").digest()

    @property
    def claimed_id(self) -> str:
        """The SPIFFE id in the certificate, whether or not it is the domain's own; else empty."""
        try:
            return spiffe_id_of(self.chain[0]) if self.chain else ""
        except NotSpiffe:
            return ""


@dataclass(slots=True)
class Connections:
    """All open connections. Invariant: `_held[p]` is the number of connections whose owner is p."""

    connections_max: int
    connections_per_principal_max: int
    age_s_max: float
    _open: dict[int, Connection] = field(default_factory=dict)
    _held: Counter[str] = field(default_factory=Counter)

    def __len__(self) -> int:
        return len(self._open)

    @property
    def full(self) -> bool:
        """True when one more connection would be too many."""
        return len(self._open) >= self.connections_max

    def opened(self, transport: Transport, now_s: float) -> Connection:
        """Take a connection whose handshake is done into the registry. One that is known, and was
        only handed from one protocol to another, stays as old as it is."""
        known = self._open.get(id(transport))
        if known is not None:
            return known
        chain = peer_chain(transport.get_extra_info("ssl_object"))
        connection = Connection(transport, chain, now_s)
        self._open[id(transport)] = connection
        return connection

    def closed(self, transport: Transport) -> None:
        """Forget a connection. Harmless for one that is not known."""
        connection = self._open.pop(id(transport), None)
        if connection is not None:
            self._release(connection)

    def of(self, transport: object) -> Connection | None:
        """The connection behind a request, or None when it is already gone."""
        return self._open.get(id(transport))

    def claim(self, connection: Connection, principal: str) -> None:
        """Count the connection as `principal`'s, or raise TooManyConnections.

        A connection that changes hands (a sidecar that got a token for another client) is counted
        for its present owner only.
        """
        if connection.owner == principal:
            return
        if self._held[principal] >= self.connections_per_principal_max:
            raise TooManyConnections(
                f"{principal} already holds {self.connections_per_principal_max} connections to "
                "this gatekeeper (limits.connections_per_principal_max); reuse or close one"
            )
        self._release(connection)
        connection.owner = principal
        if id(connection.transport) in self._open:
            self._held[principal] += 1

    def held_by(self, principal: str) -> int:
        """How many connections `principal` holds."""
        return self._held[principal]

    def too_old(self, connection: Connection, now_s: float) -> bool:
        """True when the connection has reached its greatest age and should end after this answer:
        a certificate is looked at in the handshake, so no handshake may last for ever."""
        return now_s - connection.opened_s >= self.age_s_max

    def all(self) -> Iterable[Connection]:
        """A snapshot of the open connections."""
        return tuple(self._open.values())

    def _release(self, connection: Connection) -> None:
        if connection.owner is None:
            return
        self._held[connection.owner] -= 1
        if self._held[connection.owner] <= 0:
            del self._held[connection.owner]
        connection.owner = None


def peer_chain(ssl_object: ssl.SSLObject | None) -> tuple[bytes, ...]:
    """The certificates that the peer sent, leaf first; empty without TLS or certificate.

    Python has a public name for the chain since 3.13; before, the same method hides on the inner
    object (asyncio and uvloop both use it). Where neither is there, only the leaf is known, and
    callers whose certificates hang under an intermediate CA need that CA in the bundle.
    """
    if ssl_object is None:
        return ()
    leaf = ssl_object.getpeercert(binary_form=True)
    if leaf is None:
        return ()
    holder = ssl_object if hasattr(ssl_object, "get_unverified_chain") else None
    if holder is None:
        holder = getattr(ssl_object, "_sslobj", None)
    method = getattr(holder, "get_unverified_chain", None)
    sent = (method() or []) if method is not None else []
    chain = [item if isinstance(item, bytes) else item.public_bytes(_DER) for item in sent]
    return (leaf, *(der for der in chain if der != leaf))
