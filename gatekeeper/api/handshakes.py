"""Handshakes in progress, by where they come from: who has to go when there are too many.

An honest handshake takes milliseconds, one of a flood stays until its time is up. So the oldest one
of the source that has most goes: a flood pushes out itself, and a flood from many sources what is
old. Pure state; knows no sockets.
"""

from collections.abc import Hashable, Iterator
from ipaddress import IPv6Address
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)


class Handshakes(Generic[Key]):
    """Keys in the order of their begin, per source. Invariant: no source is kept without a key."""

    def __init__(self, at_most: int) -> None:
        self._at_most = at_most
        self._by_source: dict[str, dict[Key, None]] = {}
        self._sources: dict[Key, str] = {}

    def __len__(self) -> int:
        return len(self._sources)

    def __iter__(self) -> Iterator[Key]:
        return iter(tuple(self._sources))

    def begin(self, key: Key, source: str) -> None:
        """One more handshake."""
        self._sources[key] = source
        self._by_source.setdefault(source, {})[key] = None

    def end(self, key: Key) -> bool:
        """One less. False where it was not known (any more)."""
        source = self._sources.pop(key, None)
        if source is None:
            return False
        mine = self._by_source[source]
        del mine[key]
        if not mine:
            del self._by_source[source]
        return True

    def victim(self) -> Key | None:
        """The one that has to go before another begins; None while there is room."""
        if len(self._sources) < self._at_most:
            return None
        busiest: dict[Key, None] = max(self._by_source.values(), key=len)
        return next(iter(busiest))


def source_of(peer: object) -> str:
    """Where a connection comes from. One customer holds a whole /64 of IPv6, so that is one."""
    if not isinstance(peer, tuple) or not peer:
        return ""
    host = str(peer[0]).partition("%")[0]
    if ":" not in host:
        return host
    address = IPv6Address(host)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(IPv6Address(int(address) >> 64 << 64))
