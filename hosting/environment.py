"""What is for development only, and refused in a configuration that does not say so.

Standard library only. The development certificates and tokens come from keys that lie readable
in the project's folder: a production service that trusted them would trust everybody who can
run `make up`. The functions yield `(key, text)` pairs, as a configuration's `problems` hook does.
"""

import socket
from collections.abc import Iterator
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final, Literal
from urllib.parse import urlsplit

Environment = Literal["development", "production"]
DEVELOPMENT_TRUST_DOMAIN: Final = "sidegate-dev"
_SPIFFE: Final = "spiffe://"


def is_development_identity(identity: str) -> bool:
    """True for the development trust domain itself and for every SPIFFE id in it."""
    domain = identity.strip().casefold().removeprefix(_SPIFFE).partition("/")[0]
    return domain == DEVELOPMENT_TRUST_DOMAIN


def is_loopback_url(url: str) -> bool:
    """True for a URL whose host can only be this machine, however it is spelt.

    ValueError for a text that is no URL: it must not pass as a URL of another machine.
    """
    host = (urlsplit(url.strip()).hostname or "").rstrip(".")
    if host == "localhost" or host.endswith(".localhost"):
        return True
    return _is_loopback(host)


def development_identity_problems(
    environment: Environment, key: str, *identities: str
) -> Iterator[tuple[str, str]]:
    """A problem for each SPIFFE id or trust domain that only development may use."""
    if environment == "development":
        return
    for identity in identities:
        if is_development_identity(identity):
            text = (
                f"{identity} belongs to the development trust domain, whose keys are no secret; "
                "use your own trust domain, or set environment: development"
            )
            yield key, text


def loopback_issuer_problems(
    environment: Environment, key: str, *urls: str
) -> Iterator[tuple[str, str]]:
    """A problem for each token issuer on a loopback host outside development."""
    for url in urls:
        try:
            loopback = is_loopback_url(url)
        except ValueError:
            yield key, f"{url} is not a URL; write it as https://issuer.example/path"
            continue
        if loopback and environment != "development":
            text = (
                f"{url} is an issuer on this machine, which only development may trust; "
                "name your own issuer, or set environment: development"
            )
            yield key, text


def _is_loopback(host: str) -> bool:
    address: IPv4Address | IPv6Address
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        # Resolvers also read short and hexadecimal forms such as 127.1 and 0x7f000001.
        try:
            address = IPv4Address(socket.inet_aton(host))
        except (OSError, ValueError):
            return False
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return address.is_loopback or address.is_unspecified
