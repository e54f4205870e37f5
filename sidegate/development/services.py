"""The services that `sidegate service add` makes: what each one is, and the registry of them.

A service is a name; its identity, its OAuth client, its principal and what it may do at first all
follow from it. The registry is kept so that generated files can be written anew, with moved
addresses, and lose nobody. Pure: text and values; where the registry lies is `state`'s business.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gatekeeper.policy.pattern import parse_pattern
from hosting.environment import DEVELOPMENT_TRUST_DOMAIN
from log_format.topic import is_system_topic
from sidegate.development.ca import Leaf

# One segment of a topic and of a SPIFFE id, a file's name, and short enough to be a host's name.
NAME_CHARS_MAX = 63
_NAME = re.compile(rf"[a-z][a-z0-9-]{{0,{NAME_CHARS_MAX - 1}}}")
# Names of files, principals and identities that the mesh uses itself.
TAKEN = frozenset(
    {"ca", "clients", "core", "default", "dev", "dev-app", "gatekeeper", "issuer", "policy"}
    | {"services", "sidecar", "forbidden"}
)
# YAML reads these as something that is no text.
WORDS = frozenset({"true", "false", "yes", "no", "on", "off", "y", "n", "null"})
# A service has this port and the next.
PORT_MAX = 65534
OWN_ACTIONS = ("publish", "subscribe", "replay")
SCOPES = ("log.publish", "log.subscribe")


@dataclass(frozen=True, slots=True)
class AddedService:
    """One service. `publish` and `subscribe` are patterns beyond its own topics."""

    name: str
    port: int
    publish: tuple[str, ...] = ()
    subscribe: tuple[str, ...] = ()

    @property
    def tcp_port(self) -> int:
        """Where its sidecar's TCP port is: beside the other, as 9001 is beside 9000."""
        return self.port + 1

    @property
    def spiffe_id(self) -> str:
        return f"spiffe://{DEVELOPMENT_TRUST_DOMAIN}/app/{self.name}"

    @property
    def leaf(self) -> Leaf:
        return Leaf(self.name, self.spiffe_id, server=False, client=True)

    @property
    def config(self) -> str:
        """Its sidecar's configuration, in the state folder."""
        return f"{self.name}.yaml"

    def grants(self) -> dict[str, tuple[str, ...]]:
        """What it may do, by topic pattern.

        Least privilege: its own topics, which are its name and all below it, to publish, to
        subscribe and to replay; elsewhere nothing that nobody asked for; nowhere to create, change
        or delete topics on purpose (`admin`), nor to read the decision log (`audit`).
        """
        found: dict[str, tuple[str, ...]] = dict.fromkeys(
            (self.name, f"{self.name}.>"), OWN_ACTIONS
        )
        for pattern, actions in self.extra_grants().items():
            found[pattern] = tuple(dict.fromkeys([*found.get(pattern, ()), *actions]))
        return found

    def extra_grants(self) -> dict[str, tuple[str, ...]]:
        """What it may do beyond its own topics."""
        found: dict[str, tuple[str, ...]] = {}
        for action, patterns in (("publish", self.publish), ("subscribe", self.subscribe)):
            for pattern in patterns:
                found[pattern] = (*found.get(pattern, ()), action)
        return found

    def client_entry(self) -> str:
        """Its OAuth client, as a value in the issuer's clients file."""
        return f'{{spiffe: "{self.spiffe_id}", scopes: [{", ".join(SCOPES)}]}}'

    def principal_entry(self) -> str:
        """Its principal, as a value in the policy: certificate and client must both be its own."""
        return f'{{spiffe: "{self.spiffe_id}", issuer: dev, client_id: {self.name}}}'

    def test_entries(self) -> tuple[str, ...]:
        """What the policy's own tests say of it: what it must never lose, and never get."""
        return (
            f"{{as: {self.name}, do: publish, on: {self.name}, expect: allow}}",
            f"{{as: {self.name}, do: subscribe, on: {self.name}.events, expect: allow}}",
            f"{{as: {self.name}, do: audit, on: _audit, expect: deny}}",
        )

    def extended(self, publish: Sequence[str], subscribe: Sequence[str]) -> AddedService:
        """The same service with more to do."""
        return replace(
            self,
            publish=tuple(dict.fromkeys([*self.publish, *publish])),
            subscribe=tuple(dict.fromkeys([*self.subscribe, *subscribe])),
        )


def check_name(name: str) -> str:
    """A name that everything about a service can be made from, or ValueError."""
    if _NAME.fullmatch(name) is None:
        raise ValueError(
            f"{name!r} is no service's name: a lower-case letter, then lower-case letters, digits "
            f"and '-', {NAME_CHARS_MAX} at most"
        )
    if name in TAKEN:
        raise ValueError(f"{name!r} is a name that the mesh uses itself; choose another")
    if name in WORDS:
        raise ValueError(f"{name!r} is a word that YAML takes for a value; choose another")
    return name


def check_pattern(pattern: str) -> str:
    """A topic pattern that may be granted without a second thought, or ValueError."""
    parsed = parse_pattern(pattern)
    if is_system_topic(pattern):
        raise ValueError(
            f"{pattern!r} is a system topic; reading it is `audit`, which you grant in the policy"
        )
    if not parsed.segments or not isinstance(parsed.segments[0], str):
        raise ValueError(
            f"{pattern!r} has no name at its beginning; name the topics that the service needs"
        )
    return pattern


def read_registry(text: str) -> tuple[AddedService, ...]:
    """The registry's services, sorted by name, or ValueError that names what is wrong."""
    try:
        listed = json.loads(text)["services"]
        found = [_service(name, entry) for name, entry in listed.items()]
    except (KeyError, TypeError, AttributeError, json.JSONDecodeError) as error:
        raise ValueError(f"is not what `sidegate service add` wrote: {error!r}") from error
    return tuple(sorted(found, key=lambda service: service.name))


def _service(name: str, entry: Mapping[str, Any]) -> AddedService:
    port = entry["port"]
    if not isinstance(port, int) or not 0 < port <= PORT_MAX:
        raise ValueError(f"{name}: port must lie between 1 and {PORT_MAX}, not {port!r}")
    return AddedService(
        check_name(name),
        port,
        tuple(check_pattern(pattern) for pattern in entry["publish"]),
        tuple(check_pattern(pattern) for pattern in entry["subscribe"]),
    )


def write_registry(services: Iterable[AddedService]) -> str:
    """The registry's text."""
    listed = {
        service.name: {
            "port": service.port,
            "publish": list(service.publish),
            "subscribe": list(service.subscribe),
        }
        for service in sorted(services, key=lambda service: service.name)
    }
    return json.dumps({"services": listed}, indent=2) + "\n"
