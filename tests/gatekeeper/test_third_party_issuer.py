"""Tokens of an issuer that others wrote: npm `oidc-provider`, run by Node, asked over mutual TLS.

Everything is real here: discovery, keys, `tls_client_auth` by a SPIFFE id, `private_key_jwt`, and
tokens that the issuer itself binds to the certificate that it saw.
"""

import hashlib
import json
import os
import re
import shutil
import ssl
import subprocess
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import aiohttp
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID

from gatekeeper.identity.authentication_errors import AuthenticationError, Reason
from gatekeeper.identity.authenticator import Authenticator
from gatekeeper.identity.trust import IssuerSettings, TrustDomain

SOURCE = Path(__file__).parent / "oidc_provider"
AUDIENCE = "urn:sidegate"
BILLING = "spiffe://example/ns/pay/sa/billing"
NODE_MIN = (20, 12)
"""The library hashes with a function that Node has had since this version."""
INSTALL_S_MAX = 240
"""Below the limit of a test, so that the reason is told."""


def unavailable(why: str) -> None:
    """Skip in one visible line; where tests must not be skipped, fail."""
    if os.environ.get("CI"):
        pytest.fail(why)
    pytest.skip(why)


@pytest.fixture(scope="module")
def installed(request: pytest.FixtureRequest) -> Path:
    """The library in a folder of pytest's cache, installed once for each lock file."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        unavailable("needs Node and npm, for oidc-provider as a third-party issuer")
    version = subprocess.run(["node", "--version"], capture_output=True, text=True, check=True)
    numbers = tuple(int(number) for number in re.findall(r"\d+", version.stdout)[:2])
    if numbers < NODE_MIN:
        unavailable(f"needs Node {'.'.join(map(str, NODE_MIN))} or newer, for oidc-provider")
    files = [SOURCE / name for name in ("package.json", "package-lock.json", ".npmrc")]
    digest = hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:16]
    folder = Path(request.config.cache.mkdir("oidc_provider")) / digest
    if not (folder / "installed").exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for file in files:
            shutil.copy(file, folder)
        command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
        try:
            done = subprocess.run(
                command,
                cwd=folder,
                capture_output=True,
                text=True,
                check=False,
                timeout=INSTALL_S_MAX,
            )
        except subprocess.TimeoutExpired:
            unavailable(f"npm took more than {INSTALL_S_MAX} s to install oidc-provider")
        if done.returncode != 0:
            unavailable(f"npm could not install oidc-provider: {done.stderr.strip()[-200:]}")
        (folder / "installed").touch()
    shutil.copy(SOURCE / "provider.mjs", folder)
    return folder


@dataclass
class Provider:
    """A running provider, and who may ask it."""

    issuer: str
    ca: Path
    bundle: Path
    holders: dict[str, Any]
    """By name: certificates with their keys, as files `<name>.pem` and `<name>.key`."""
    assertion_key: Any

    def client_context(self, holder: str | None) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=self.ca)
        if holder is not None:
            folder = self.ca.parent
            context.load_cert_chain(folder / f"{holder}.pem", folder / f"{holder}.key")
        return context

    async def answer(self, holder: str | None, form: dict[str, str]) -> tuple[int, dict[str, Any]]:
        """Ask the token endpoint."""
        form = {"grant_type": "client_credentials", "scope": "log.publish", **form}
        connector = aiohttp.TCPConnector(ssl=self.client_context(holder), force_close=True)
        async with (
            aiohttp.ClientSession(connector=connector) as session,
            session.post(f"{self.issuer}/token", data=form) as response,
        ):
            return response.status, await response.json()

    async def token(self, holder: str | None, client_id: str, **form: str) -> str:
        status, body = await self.answer(holder, {"client_id": client_id, **form})
        assert status == 200, body
        return body["access_token"]

    def assertion(self, client_id: str) -> dict[str, str]:
        """A client's signed proof of itself, for `private_key_jwt`."""
        now = int(time.time())
        claims = {
            "iss": client_id,
            "sub": client_id,
            "aud": self.issuer,
            "jti": os.urandom(8).hex(),
            "iat": now,
            "exp": now + 60,
        }
        kind = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
        signed = jwt.encode(claims, self.assertion_key, "ES256", headers={"kid": "client-key"})
        return {"client_assertion_type": kind, "client_assertion": signed}


def clients(assertion_jwk: dict[str, Any]) -> list[dict[str, Any]]:
    usual = {
        "grant_types": ["client_credentials"],
        "response_types": [],
        "redirect_uris": [],
        "scope": "log.publish log.read",
    }
    by_certificate = {
        "token_endpoint_auth_method": "tls_client_auth",
        "tls_client_auth_san_uri": BILLING,
    }
    bound = {"tls_client_certificate_bound_access_tokens": True}
    return [
        {"client_id": "billing", **usual, **by_certificate, **bound},
        {"client_id": "unbound", **usual, **by_certificate},
        {
            "client_id": "by-key",
            "token_endpoint_auth_method": "private_key_jwt",
            "jwks": {"keys": [assertion_jwk]},
            **usual,
            **bound,
        },
    ]


@pytest.fixture(scope="module")
def provider(
    installed: Path, tmp_path_factory: pytest.TempPathFactory, new_root, new_mint, server_root
) -> Iterator[Provider]:
    folder = tmp_path_factory.mktemp("provider")
    root = new_root("example root of today", now=time.time())
    server = server_root.leaf(None, hosts=["localhost"], eku=[ExtendedKeyUsageOID.SERVER_AUTH])
    holders = {
        "billing": root.leaf(BILLING),
        "renewed": root.leaf(BILLING),
        "thief": root.leaf("spiffe://example/thief"),
    }
    for name, holder in holders.items():
        (folder / f"{name}.pem").write_bytes(holder.pem)
        (folder / f"{name}.key").write_bytes(holder.key_pem)
    (folder / "ca.pem").write_bytes(server_root.pem)
    (folder / "bundle.pem").write_bytes(root.pem)
    client_key = new_mint(kid="client-key")
    settings = {
        "certificate": server.pem.decode(),
        "key": server.key_pem.decode(),
        "client_ca": root.pem.decode(),
        "jwks": {"keys": [signing_jwk()]},
        "clients": clients(client_key.jwk),
        "scopes": ["log.publish", "log.read"],
        "audience": AUDIENCE,
        "ttl_s": 600,
        "claims": {"team": "pay"},
    }
    (folder / "settings.json").write_text(json.dumps(settings))
    with (
        (folder / "stderr").open("wb") as stderr,
        subprocess.Popen(
            ["node", "provider.mjs", str(folder / "settings.json")],
            cwd=installed,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
        ) as process,
    ):
        try:
            issuer = issuer_line(process, folder / "stderr")
            yield Provider(
                issuer, folder / "ca.pem", folder / "bundle.pem", holders, client_key.key
            )
        finally:
            process.terminate()


def signing_jwk() -> dict[str, Any]:
    key = ec.generate_private_key(ec.SECP256R1())
    jwk = jwt.get_algorithm_by_name("ES256").to_jwk(key, as_dict=True)
    return {**jwk, "kid": "provider-key", "alg": "ES256", "use": "sig"}


def issuer_line(process: "subprocess.Popen[bytes]", stderr: Path) -> str:
    """The line that says where the provider listens; the library may say other things first."""
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith(b"{"):
            return json.loads(line)["issuer"]
    raise AssertionError(f"the provider ended: {stderr.read_text()[-500:]}")


@pytest.fixture
async def authenticator(provider: Provider) -> AsyncIterator[Authenticator]:
    settings = IssuerSettings("corp", provider.issuer, AUDIENCE, ca=provider.ca)
    domain = TrustDomain("example", provider.bundle)
    authenticator = Authenticator(issuers=[settings], domains=[domain])
    await authenticator.start()
    yield authenticator
    await authenticator.stop()


@pytest.fixture
def refusal(authenticator, provider) -> Callable[[str, str], Awaitable[Reason]]:
    async def refuse(holder: str, token: str) -> Reason:
        chain = provider.holders[holder].chain
        with pytest.raises(AuthenticationError) as caught:
            await authenticator.authenticate(chain, token, time.time())
        return caught.value.reason

    return refuse


async def test_a_token_got_by_certificate_is_taken(provider, authenticator) -> None:
    token = await provider.token("billing", "billing")
    holder = provider.holders["billing"]
    identity = await authenticator.authenticate(holder.chain, token, time.time())
    assert identity.spiffe_id == BILLING
    assert (identity.client_id, identity.subject) == ("billing", "billing")
    assert identity.issuer_url == provider.issuer
    assert identity.scopes == {"log.publish"}
    assert identity.claims["team"] == "pay"
    assert identity.thumbprint == holder.thumbprint
    assert time.time() < identity.expires_at <= time.time() + 631


async def test_a_token_got_by_a_signed_assertion_is_bound_all_the_same(
    provider, authenticator, refusal
) -> None:
    token = await provider.token("billing", "by-key", **provider.assertion("by-key"))
    chain = provider.holders["billing"].chain
    identity = await authenticator.authenticate(chain, token, time.time())
    assert identity.client_id == "by-key"
    assert await refusal("thief", token) is Reason.BOUND_TO_ANOTHER_CERTIFICATE


async def test_the_providers_token_is_worthless_to_a_thief(provider, refusal) -> None:
    token = await provider.token("billing", "billing")
    assert await refusal("thief", token) is Reason.BOUND_TO_ANOTHER_CERTIFICATE


async def test_a_renewed_certificate_needs_a_new_token(provider, authenticator, refusal) -> None:
    old = await provider.token("billing", "billing")
    assert await refusal("renewed", old) is Reason.BOUND_TO_ANOTHER_CERTIFICATE
    new = await provider.token("renewed", "billing")
    chain = provider.holders["renewed"].chain
    assert await authenticator.authenticate(chain, new, time.time())


async def test_a_token_that_the_provider_did_not_bind_is_refused_unless_allowed(
    provider, authenticator, refusal
) -> None:
    token = await provider.token("billing", "unbound")
    assert await refusal("billing", token) is Reason.TOKEN_NOT_BOUND
    settings = IssuerSettings("corp", provider.issuer, AUDIENCE, ca=provider.ca)
    authenticator.replace_issuers([replace(settings, binding="off")])
    chain = provider.holders["billing"].chain
    assert await authenticator.authenticate(chain, token, time.time())


async def test_a_token_for_another_resource_is_refused(provider, refusal) -> None:
    token = await provider.token("billing", "billing", resource="urn:other")
    assert await refusal("billing", token) is Reason.WRONG_AUDIENCE


async def test_an_opaque_token_is_refused(refusal) -> None:
    assert await refusal("billing", "opaque-token-of-a-provider") is Reason.TOKEN_MALFORMED


async def test_a_tampered_token_of_the_provider_is_refused(provider, refusal) -> None:
    header, payload, signature = (await provider.token("billing", "billing")).split(".")
    other = (await provider.token("billing", "unbound")).split(".")[1]
    assert await refusal("billing", f"{header}.{other}.{signature}") is Reason.SIGNATURE_INVALID
    assert payload != other


async def test_the_provider_itself_refuses_who_has_not_the_spiffe_id(provider) -> None:
    """So that the tests above mean what they say: it does look at the certificate."""
    for holder in ("thief", None):
        status, body = await provider.answer(holder, {"client_id": "billing"})
        assert (status, body["error"]) == (401, "invalid_client")
