"""The text of the development configurations and policy.

Pure functions of the addresses. Relative paths count from the state folder, where the files lie.
"""

from __future__ import annotations

from hosting.environment import DEVELOPMENT_TRUST_DOMAIN
from sidegate.development.addresses import (
    CORE,
    CORE_HEALTH,
    GATEKEEPER,
    GATEKEEPER_ADMIN,
    GATEKEEPER_HEALTH,
    ISSUER,
    SIDECAR,
    Addresses,
    Listener,
    reachable,
)
from sidegate.development.ca import Leaf

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
clients:
  {APP_CLIENT}: {{spiffe: "{APP_ID}", scopes: [log.publish, log.subscribe], claims: {{team: dev}}}}
"""


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
core: {{url: "{url(addresses, CORE)}", spiffe_id: "{CORE_ID}"}}
signing_key: keys/gatekeeper-signing.pem
policy: policy.yaml
data: data/gatekeeper
"""


def sidecar(addresses: Addresses) -> str:
    return f"""\
environment: development
listen: "{addresses[SIDECAR]}"
tls: {{certificate: certs/sidecar.pem, key: certs/sidecar.key, ca: ca/ca.pem}}
gatekeepers: ["{url(addresses, GATEKEEPER)}"]
# The sidecar sends nothing to a server that is not this one.
gatekeeper_id: "{GATEKEEPER_ID}"
oauth:
  issuer: "{url(addresses, ISSUER)}"
  client_id: {APP_CLIENT}
  method: tls_client_auth
  ca: ca/ca.pem
  audience: "{AUDIENCE}"
data: data/sidecar
"""


def policy(addresses: Addresses) -> str:
    return f"""\
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
    admin: [{APP_CLIENT}]
  # The system's own topics are in no wildcard.
  _audit: {{audit: [{APP_CLIENT}]}}
deny:
  # So that a denial can be seen: publish to forbidden.anything and you get a 403.
  - id: D1
    who: [{APP_CLIENT}]
    do: [publish, subscribe, replay, admin]
    on: "forbidden.>"
    reason: topics below forbidden are closed in development
tests:
  - {{as: {APP_CLIENT}, do: publish, on: orders, expect: allow}}
  - {{as: {APP_CLIENT}, do: subscribe, on: orders, expect: allow}}
  - {{as: {APP_CLIENT}, do: audit, on: _audit, expect: allow}}
  - {{as: {APP_CLIENT}, do: publish, on: forbidden.orders, expect: deny}}
"""


DOCUMENTS = {
    "core.yaml": core,
    "issuer.yaml": issuer,
    "gatekeeper.yaml": gatekeeper,
    "sidecar.yaml": sidecar,
    "policy.yaml": policy,
}
