"""Where webhooks may go. Pure: names are resolved by others, who ask here about each address.

An app, or whoever lured it, must not be able to make the sidecar call what only the sidecar can
reach. So a destination is http or https, named without tricks, on the allow list, and never one
of Sidegate's own ports. A name is allowed by name, but its addresses are judged all the same.
"""

import re
import socket
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)
from typing import Final
from urllib.parse import urlsplit

from sidecar.errors import BadDestination, ForbiddenDestination

IP = IPv4Address | IPv6Address
URL_BYTES_MAX: Final = 2048
"""What servers commonly take."""
DEFAULT_OWN_PORTS: Final = frozenset({7443, 7444, 8443, 8444, 8445, 8446, 9000, 9001, 9002})
"""Where Sidegate's services listen unless they are told otherwise."""
ALLOW_KEY: Final = "push.allow"
_NAT64: Final = IPv6Network("64:ff9b::/96")
_PORTS: Final = {"http": 80, "https": 443}
_NAME: Final = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?:\.[a-z0-9_-]{1,63})*\.?", re.ASCII)
_NUMERIC: Final = re.compile(
    r"(?:0x[0-9a-f]*|[0-9]+)(?:\.(?:0x[0-9a-f]*|[0-9]+)){0,3}\.?", re.ASCII
)
_ENDS_IN_NUMBER: Final = re.compile(r"(?:^|\.)(?:0x[0-9a-f]*|[0-9]+)\.?$", re.ASCII)
_TARGET: Final = re.compile(r"[!-~]*", re.ASCII)


@dataclass(frozen=True, slots=True)
class Target:
    """A destination in its one canonical form. `address` where the URL names one itself."""

    scheme: str
    host: str
    port: int
    path: str
    address: IP | None

    @property
    def url(self) -> str:
        """The canonical URL."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = "" if self.port == _PORTS[self.scheme] else f":{self.port}"
        return f"{self.scheme}://{host}{port}{self.path}"


def parse_target(url: str) -> Target:
    """The destination that `url` means, or BadDestination that says what is wrong with it."""
    if len(url) > URL_BYTES_MAX:
        raise BadDestination(f"is longer than {URL_BYTES_MAX} characters")
    if _TARGET.fullmatch(url) is None or "\\" in url:
        raise BadDestination("must be plain ASCII without spaces; percent-encode what is not")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise BadDestination(f"is no URL: {error}") from error
    scheme = parts.scheme.lower()
    if scheme not in _PORTS:
        raise BadDestination("must begin with http:// or https://")
    if "@" in parts.netloc:
        raise BadDestination("must not hold a user or password; use push.headers with secret_file")
    if parts.fragment or url.endswith("#"):
        raise BadDestination("must not have a fragment")
    if port == 0:
        raise BadDestination("port 0 is no port")
    host, address = canonical_host(parts.hostname or "")
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Target(scheme, host, port or _PORTS[scheme], path, address)


def canonical_host(host: str) -> tuple[str, IP | None]:
    """The host as it is compared and called, and its address where it is one."""
    if not host:
        raise BadDestination("names no host")
    if "%" in host:
        raise BadDestination("an IPv6 zone or an escape in the host is not allowed")
    if ":" in host:
        try:
            address = canonical_address(IPv6Address(host))
        except ValueError as error:
            raise BadDestination(f"{host!r} is no IPv6 address") from error
        return str(address), address
    host = host.lower()
    if _ENDS_IN_NUMBER.search(host):
        # What C libraries read as an address: 2130706433, 0x7f.1 and 0177.0.0.1 are 127.0.0.1.
        # WHATWG URL, 3.5: a host whose last label is a number is an address or nothing.
        try:
            plain = IPv4Address(socket.inet_aton(host.removesuffix(".")))
        except OSError as error:
            raise BadDestination(f"{host!r} is no IPv4 address") from error
        return str(plain), plain
    if _NAME.fullmatch(host) is None or len(host) > 253:
        raise BadDestination(f"{host[:64]!r} is no host name; write others than ASCII as xn--…")
    return host.removesuffix("."), None


def canonical_address(address: IP) -> IP:
    """The IPv4 address inside an IPv6 one that only wraps it, else the address itself."""
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return address.ipv4_mapped
        if address.sixtofour is not None:
            return address.sixtofour
        if address in _NAT64:
            return IPv4Address(int(address) & 0xFFFFFFFF)
        if address.scope_id is not None:
            return IPv6Address(int(address))
    return address


@dataclass(frozen=True, slots=True)
class Allowed:
    """One entry of the allow list: a name, a network, or `loopback`; each perhaps with a port."""

    network: IPv4Network | IPv6Network | None = None
    name: str | None = None
    loopback: bool = False
    port: int | None = None

    def fits_address(self, address: IP, port: int) -> bool:
        """Whether the entry speaks of this address."""
        if self.port not in (None, port):
            return False
        if self.loopback:
            return address.is_loopback
        network = self.network
        return network is not None and network.version == address.version and address in network

    def fits_name(self, host: str, port: int) -> bool:
        """Whether the entry speaks of this name."""
        if self.name is None or self.port not in (None, port):
            return False
        if self.name.startswith("*."):
            return host.endswith(self.name[1:]) and len(host) > len(self.name) - 1
        return host == self.name


def parse_allowed(text: str) -> Allowed:
    """An entry of the allow list, or ValueError that says what an entry may be."""
    word, port = text.strip(), None
    if word.startswith("[") and "]" in word:
        word, _, rest = word[1:].partition("]")
        port = _port(rest[1:], text) if rest.startswith(":") else None
    elif word.count(":") == 1:
        word, _, digits = word.partition(":")
        port = _port(digits, text)
    if word == "loopback":
        return Allowed(loopback=True, port=port)
    try:
        return Allowed(network=ip_network(word), port=port)
    except ValueError:
        name = word.lower()
        if _NUMERIC.fullmatch(name) or _NAME.fullmatch(name.removeprefix("*.")) is None:
            raise ValueError(
                f"{text!r} is none of loopback, an address, a network such as 10.0.0.0/8, a name, "
                "*.name; each may end with :port"
            ) from None
        return Allowed(name=name.removesuffix("."), port=port)


def _port(digits: str, text: str) -> int:
    if not digits.isascii() or not digits.isdigit() or not 0 < int(digits[:6]) < 65536:
        raise ValueError(f"{text!r} has no port behind its colon")
    return int(digits)


class DestinationGuard:
    """Judges destinations. `is_local` tells whether an address is this machine's, `own_ports` has
    the ports of Sidegate's that are known on it by now."""

    def __init__(
        self,
        allow: Iterable[str],
        *,
        own_ports: Callable[[], Iterable[int]],
        own_endpoints: Iterable[tuple[str, int]],
        is_local: Callable[[IP], bool],
    ) -> None:
        self._allow = tuple(parse_allowed(each) for each in allow)
        self._own_ports = own_ports
        self.own_endpoints = frozenset(
            (canonical_host(host)[0], port) for host, port in own_endpoints
        )
        """Gatekeepers and issuer, by name and port."""
        self._is_local = is_local

    def check_name(self, target: Target) -> bool:
        """Refuse what the URL alone forbids. True where the list allows it by its name."""
        if (target.host, target.port) in self.own_endpoints:
            raise ForbiddenDestination(
                f"{target.host}:{target.port} is a gatekeeper or issuer of this sidecar's own "
                "configuration; Sidegate's own ports are never called"
            )
        if target.address is not None:
            self.check_address(target, target.address)
        return any(each.fits_name(target.host, target.port) for each in self._allow)

    def check_address(
        self, target: Target, address: IP, own: frozenset[tuple[IP, int]] = frozenset()
    ) -> None:
        """Refuse an address that the target's name has. `own` are the gatekeepers' and issuer's."""
        address = canonical_address(address)
        where = f"{address}:{target.port}"
        if address.is_unspecified or address.is_multicast or address == _BROADCAST:
            raise ForbiddenDestination(f"{address} is no single machine's address")
        if (address, target.port) in own:
            raise ForbiddenDestination(
                f"{where} is a gatekeeper or issuer; Sidegate's own ports are never called"
            )
        local = address.is_loopback or self._is_local(address)
        if local and (target.port in DEFAULT_OWN_PORTS or target.port in self._own_ports()):
            raise ForbiddenDestination(
                f"{where} is one of Sidegate's own ports, which are never called; "
                "let the app listen on another"
            )
        if any(each.fits_address(address, target.port) for each in self._allow):
            return
        by_name = any(each.fits_name(target.host, target.port) for each in self._allow)
        if by_name and address.is_global and not local:
            return
        what = "is not public, so its name alone does not allow it" if by_name else "is not on it"
        raise ForbiddenDestination(
            f"{where} ({target.host}) is refused by the allow list: it {what}. "
            f"Add the address or network to {ALLOW_KEY} in the sidecar's configuration",
            members={"rule": "allow_list", "config_key": ALLOW_KEY},
        )


_BROADCAST: Final = ip_address("255.255.255.255")


def is_this_machines(address: IP) -> bool:
    """Whether `address` is one of this machine's: only such can be bound. Sends nothing."""
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((str(address), 0))
        except OSError:
            return False
    return True
