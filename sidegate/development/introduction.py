"""Asks a running mesh whether it knows a service that was just added, as the service itself would.

It gets a token with the service's certificate and asks the gatekeeper who that is: issuer, policy
and certificate are proven at once, and nothing is published. Only questions over HTTP.
"""

from __future__ import annotations

import hashlib
import ssl
import time
from urllib.parse import urlencode

from sidegate.client import Answer, Connection, Unreachable
from sidegate.development.addresses import GATEKEEPER, ISSUER, Addresses
from sidegate.development.documents import AUDIENCE, url
from sidegate.development.keeper import ASK_AGAIN_S
from sidegate.development.probe import PROBE_S_MAX, Verdict
from sidegate.development.services import AddedService
from sidegate.development.state import State

# The issuer looks at its clients five times a second, the gatekeeper at its policy ten times and
# lets it rest before it reads; both within a second, more on a machine that is busy.
KNOWN_S_MAX = 10.0

_FORM = {"Content-Type": "application/x-www-form-urlencoded"}


def introduce(state: State, where: Addresses, service: AddedService) -> Verdict:
    """Wait until the mesh knows the service, its policy included; why not, if it never does."""
    end_s = time.monotonic() + KNOWN_S_MAX
    while not (verdict := ask(state, where, service)).ready and time.monotonic() < end_s:
        time.sleep(ASK_AGAIN_S)
    return verdict


def ask(state: State, where: Addresses, service: AddedService) -> Verdict:
    """One look."""
    certs = state.root / "certs"
    tls = ssl.create_default_context(cafile=str(state.ca))
    tls.load_cert_chain(certs / f"{service.name}.pem", certs / f"{service.name}.key")
    try:
        with Connection(url(where, ISSUER), timeout_s=PROBE_S_MAX, tls=tls) as issuer:
            answer = issuer.request("POST", "/token", _token_request(service), _FORM)
        if not answer.ok:
            return _not_yet("the issuer", answer)
        token = answer.document()["access_token"]
        with Connection(url(where, GATEKEEPER), timeout_s=PROBE_S_MAX, tls=tls) as gatekeeper:
            bearer = {"Authorization": f"Bearer {token}"}
            answer = gatekeeper.request("GET", "/v1/whoami", None, bearer)
    except Unreachable as error:
        return Verdict(ready=False, reason=str(error))
    if not answer.ok:
        return _not_yet("the gatekeeper", answer)
    return _known(answer.document(), state, service)


def _token_request(service: AddedService) -> bytes:
    form = {
        "grant_type": "client_credentials",
        "client_id": service.name,
        "resource": AUDIENCE,
    }
    return urlencode(form).encode()


def _not_yet(who: str, answer: Answer) -> Verdict:
    document = answer.document()
    said = document.get("error_description") if isinstance(document, dict) else None
    return Verdict(ready=False, reason=f"{who} says: {said or answer.problem()}")


def _known(told: dict[str, str], state: State, service: AddedService) -> Verdict:
    wanted = hashlib.sha256(state.config("policy").read_bytes()).hexdigest()
    if told.get("policy_hash") != wanted:
        return Verdict(ready=False, reason="the gatekeeper has not taken up the policy")
    if told.get("principal") != service.name:
        reason = f"to the gatekeeper it is {told.get('principal')}; another principal fits it too"
        return Verdict(ready=False, reason=reason)
    return Verdict(ready=True)
