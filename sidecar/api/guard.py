"""Who may speak to the sidecar: its own app, and no web page that a browser was lured to.

A page of another site can make a browser send requests to localhost, and by DNS rebinding even
read the answers. Browsers tell on it: the `Host` is the page's own, or `Origin` or
`Sec-Fetch-Site` name another site. Pure functions over header values; every route asks here.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, Protocol

from sidecar.errors import ForeignCaller

_LOCAL_NAMES: Final = frozenset({"localhost", "127.0.0.1", "[::1]"})
_SAME_SITE: Final = frozenset({"same-origin", "same-site", "none"})
"""`same-site` is a page of this machine on another port: an app's own front end."""


class Headers(Protocol):
    """Header values by name, whatever its case."""

    def getall(self, key: str, default: list[str], /) -> list[str]:
        """All values of a name, in order."""


@dataclass(frozen=True, slots=True)
class Guard:
    """The names by which the sidecar may be called: `name`, which means any port, or `name:port`.

    `names` are the configured ones; the local names always hold.
    """

    names: frozenset[str] = field(default_factory=frozenset)

    @classmethod
    def of(cls, names: Iterable[str]) -> "Guard":
        """A guard that lets `names` pass besides the local ones."""
        return cls(frozenset(name.lower() for name in names))

    def check_request(self, target: str, headers: Headers) -> None:
        """The same for a whole request: its target, and headers that may come several times.

        Of two values each reader may take another, so that two are as bad as a foreign one; and a
        target with a host of its own would say something else than the Host header.
        """
        if not target.startswith("/"):
            raise ForeignCaller(
                f"request target: {target[:100]!r} is not a path; ask for one that begins with /"
            )
        values: list[str | None] = []
        for name in ("Host", "Origin", "Sec-Fetch-Site"):
            given = headers.getall(name, [])
            if len(given) > 1:
                raise ForeignCaller(f"{name}: is there {len(given)} times; send it once")
            values.append(given[0] if given else None)
        self.check(*values)

    def check(self, host: str | None, origin: str | None, fetch_site: str | None) -> None:
        """Return where the request may go on, else raise ForeignCaller that says why."""
        if host is None or not self.is_own_host(host):
            raise ForeignCaller(
                f"Host: {(host or '')[:100]!r} is not this sidecar; call it by localhost, "
                "or add the name to allowed_hosts"
            )
        if fetch_site is not None and fetch_site.lower() not in _SAME_SITE:
            raise ForeignCaller(
                f"Sec-Fetch-Site: {fetch_site[:100]!r} says that a page of another site sent this"
            )
        if origin is not None and not self._is_own_origin(origin):
            raise ForeignCaller(
                f"Origin: {origin[:100]!r} is another site; add its host to allowed_hosts"
            )

    def is_own_host(self, host: str) -> bool:
        """True for a Host header that names this sidecar."""
        host = host.lower()
        if host in self.names:
            return True
        name, port = _split(host)
        if port is not None and not _is_port(port):
            return False
        return name in _LOCAL_NAMES or name in self.names

    def _is_own_origin(self, origin: str) -> bool:
        scheme, separator, host = origin.partition("://")
        return bool(separator) and scheme.lower() in ("http", "https") and self.is_own_host(host)


def _is_port(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 5 and int(text) <= 65535


def _split(host: str) -> tuple[str, str | None]:
    """Name and port of `name`, `name:port`, `[v6]` or `[v6]:port`."""
    if host.startswith("["):
        name, bracket, rest = host.partition("]")
        if rest and not rest.startswith(":"):
            return host, None
        return name + bracket, rest[1:] if rest else None
    name, colon, port = host.partition(":")
    return name, port if colon else None
