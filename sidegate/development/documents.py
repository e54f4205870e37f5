"""The text of the development configurations and policy.

Pure functions of the addresses, and of the services that were added beside the development app.
Relative paths count from the state folder, where the files lie.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hosting.environment import DEVELOPMENT_TRUST_DOMAIN
from hosting.units import Address
from sidegate.development.additions import client_added, service_added
from sidegate.development.addresses import (
    CORE,
    CORE_HEALTH,
    GATEKEEPER,
    GATEKEEPER_ADMIN,
    GATEKEEPER_HEALTH,
    ISSUER,
    LOOPBACK,
    SIDECAR,
    SIDECAR_TCP,
    Addresses,
    Listener,
    reachable,
)
from sidegate.development.ca import Leaf
from sidegate.development.services import AddedService

CORE_ID = f"spiffe://{DEVELOPMENT_TRUST_DOMAIN}/core"
GATEKEEPER_ID = f"spiffe://{DEVELOPMENT_TRUST_DOMAIN}/gatekeeper"
ISSUER_ID = f"spiffe://{DEVELOPMENT_TRUST_DOMAIN}/issuer"
APP_ID = f"spiffe://{DEVELOPMENT_TRUST_DOMAIN}/app/dev"
APP_CLIENT = "dev-app"
AUDIENCE = "urn:sidegate"

LEAVES = (
    Leaf("core", CORE_ID, server=True, client=True),
    Leaf("gatekeeper", GATEKEEPER_ID, server=True, client=True),
    Leaf("issuer", ISSUER_ID, server=True, client=False),
    Leaf("sidecar", APP_ID, server=False, client=True),
)


def url(addresses: Addresses, listener: Listener) -> str:
    """The https address of a development service."""
    return f"https://{reachable(addresses[listener])}"


def core(addresses: Addresses) -> str:
    return f"""\
environment: development
listen: "{addresses[CORE]}"
health: "{addresses[CORE_HEALTH]}"
tls: {{certificate: certs/core.pem, key: certs/core.key, ca: ca/ca.pem}}
# Nobody but a gatekeeper may speak to the core.
admit: ["{GATEKEEPER_ID}"]
data: data/core
# Signs the checkpoints of the log; core.pub is its public half.
signing_key: keys/core-signing.pem
# Topics are made on first publish or subscribe. In production they are made on purpose.
auto_create_topics: true
"""


def issuer(addresses: Addresses) -> str:
    return f"""\
environment: development
listen: "{addresses[ISSUER]}"
tls: {{certificate: certs/issuer.pem, key: certs/issuer.key, ca: ca/ca.pem}}
issuer: "{url(addresses, ISSUER)}"
keys: keys/issuer.json
audience: "{AUDIENCE}"
token_ttl: 10m
clients_file: clients.yaml
"""


def clients(services: Sequence[AddedService] = ()) -> str:
    text = f"""\
# Who may ask the development issuer for tokens. A change takes effect within a second.
clients:
  {APP_CLIENT}: {{spiffe: "{APP_ID}", scopes: [log.publish, log.subscribe], claims: {{team: dev}}}}
"""
    for service in services:
        text = client_added(text, service)
    return text


def gatekeeper(addresses: Addresses) -> str:
    return f"""\
environment: development
id: "{GATEKEEPER_ID}"
listen: "{addresses[GATEKEEPER]}"
admin: "{addresses[GATEKEEPER_ADMIN]}"
health: "{addresses[GATEKEEPER_HEALTH]}"
tls: {{certificate: certs/gatekeeper.pem, key: certs/gatekeeper.key, ca: ca/ca.pem}}
trust_domains:
  {DEVELOPMENT_TRUST_DOMAIN}: {{bundle: ca/ca.pem, crl: "off"}}
# With the core's public key it is also a witness: it watches that the log only grows.
core: {{url: "{url(addresses, CORE)}", spiffe_id: "{CORE_ID}", public_key: core.pub}}
signing_key: keys/gatekeeper-signing.pem
policy: policy.yaml
data: data/gatekeeper
"""


def sidecar(addresses: Addresses) -> str:
    listen, tcp = addresses[SIDECAR], addresses.get(SIDECAR_TCP)
    return _sidecar(addresses, listen, tcp, "sidecar", APP_CLIENT)


def service_sidecar(addresses: Addresses, service: AddedService) -> str:
    """The sidecar of an added service."""
    listen, tcp = Address(LOOPBACK, service.port), Address(LOOPBACK, service.tcp_port)
    return _sidecar(addresses, listen, tcp, service.name, service.name)


def _sidecar(
    addresses: Addresses, listen: Address, tcp: Address | None, name: str, client_id: str
) -> str:
    broker = "" if tcp is None else f'# Go-Broker\'s line protocol: PUB and FETCH.\ntcp: "{tcp}"\n'
    return f"""\
environment: development
listen: "{listen}"
{broker}tls: {{certificate: certs/{name}.pem, key: certs/{name}.key, ca: ca/ca.pem}}
gatekeepers: ["{url(addresses, GATEKEEPER)}"]
# The sidecar sends nothing to a server that is not this one.
gatekeeper_id: "{GATEKEEPER_ID}"
oauth:
  issuer: "{url(addresses, ISSUER)}"
  client_id: {client_id}
  method: tls_client_auth
  ca: ca/ca.pem
  audience: "{AUDIENCE}"
data: data/{name}
"""


def policy(addresses: Addresses, services: Sequence[AddedService] = ()) -> str:
    text = f"""\
# Who may do what. Nothing is allowed that no rule allows, and a deny always wins.
version: 1
issuers:
  dev:
    issuer: "{url(addresses, ISSUER)}"
    ca: ca/ca.pem
    audience: "{AUDIENCE}"
    algorithms: [ES256]
    binding: required
    max_ttl: 15m
    skew: 30s
principals:
  {APP_CLIENT}: {{spiffe: "{APP_ID}", issuer: dev, client_id: {APP_CLIENT}}}
topics:
  ">":
    publish: [{APP_CLIENT}]
    subscribe: [{APP_CLIENT}]
    replay: [{APP_CLIENT}]
    share: [{APP_CLIENT}]
    admin: [{APP_CLIENT}]
  # The system's own topics are in no wildcard.
  _audit: {{audit: [{APP_CLIENT}]}}
deny:
  # So that a denial can be seen: publish to forbidden.anything and you get a 403.
  - id: D1
    who: [{APP_CLIENT}]
    do: [publish, subscribe, replay, share, admin]
    on: "forbidden.>"
    reason: topics below forbidden are closed in development
tests:
  - {{as: {APP_CLIENT}, do: publish, on: orders, expect: allow}}
  - {{as: {APP_CLIENT}, do: subscribe, on: orders, expect: allow}}
  - {{as: {APP_CLIENT}, do: audit, on: _audit, expect: allow}}
  - {{as: {APP_CLIENT}, do: publish, on: forbidden.orders, expect: deny}}
"""
    for service in services:
        text = service_added(text, service)
    return text


DOCUMENTS: dict[str, Callable[[Addresses], str]] = {
    "core.yaml": core,
    "issuer.yaml": issuer,
    "clients.yaml": lambda _: clients(),
    "gatekeeper.yaml": gatekeeper,
    "sidecar.yaml": sidecar,
    "policy.yaml": policy,
}


def texts(addresses: Addresses, services: Sequence[AddedService]) -> dict[str, str]:
    """Every file's text, by its name."""
    return {
        **{name: text(addresses) for name, text in DOCUMENTS.items()},
        "clients.yaml": clients(services),
        "policy.yaml": policy(addresses, services),
        **{service.config: service_sidecar(addresses, service) for service in services},
    }
