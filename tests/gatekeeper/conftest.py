"""CAs, certificates, signed tokens and issuers for the gatekeeper's tests: all real, all local.

Nothing here decides anything: the fixtures make bytes, as a CA, an issuer or an attacker would.
"""

import datetime as dt
import json
import ssl
import sys
import time
from base64 import urlsafe_b64encode
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import jwt
import pytest
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

NOW = 1_800_000_000.0
DAY_S = 86_400.0
CLIENT_AUTH = ExtendedKeyUsageOID.CLIENT_AUTH
SERVER_AUTH = ExtendedKeyUsageOID.SERVER_AUTH


def name_of(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def moment(seconds: float) -> dt.datetime:
    return dt.datetime.fromtimestamp(seconds, dt.UTC)


def hash_for(key: Any) -> hashes.HashAlgorithm | None:
    return None if isinstance(key, ed25519.Ed25519PrivateKey) else hashes.SHA256()


def key_usage(*granted: str) -> x509.KeyUsage:
    names = (
        "digital_signature",
        "content_commitment",
        "key_encipherment",
        "data_encipherment",
        "key_agreement",
        "key_cert_sign",
        "crl_sign",
        "encipher_only",
        "decipher_only",
    )
    return x509.KeyUsage(**{name: name in granted for name in names})


@dataclass
class Issued:
    """A certificate with its key. `chain` is what its holder sends, leaf first."""

    certificate: x509.Certificate
    key: Any
    above: tuple[x509.Certificate, ...] = ()

    @property
    def der(self) -> bytes:
        return self.certificate.public_bytes(Encoding.DER)

    @property
    def pem(self) -> bytes:
        return self.certificate.public_bytes(Encoding.PEM)

    @property
    def key_pem(self) -> bytes:
        return self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())

    @property
    def chain(self) -> tuple[bytes, ...]:
        return (self.der, *(item.public_bytes(Encoding.DER) for item in self.above))

    @property
    def thumbprint(self) -> bytes:
        return sha256(self.der).digest()

    @property
    def serial(self) -> int:
        return self.certificate.serial_number


class Authority(Issued):
    """A CA: a root, or one below another."""

    now: float = NOW

    def leaf(
        self,
        spiffe: str | None = "spiffe://example/app",
        *,
        uris: Sequence[str] | None = None,
        eku: Sequence[x509.ObjectIdentifier] | None = (CLIENT_AUTH,),
        usage: x509.KeyUsage | None = None,
        ca: bool | None = None,
        common_name: str = "leaf",
        key: Any = None,
        not_before_s: float = -DAY_S,
        not_after_s: float = DAY_S,
        hosts: Sequence[str] = (),
        extra: Sequence[tuple[x509.ExtensionType, bool]] = (),
        serial: int | None = None,
    ) -> Issued:
        """A certificate below this CA; every part of it can be wrong on request."""
        uris = uris if uris is not None else ([spiffe] if spiffe is not None else [])
        names: list[x509.GeneralName] = [x509.UniformResourceIdentifier(uri) for uri in uris]
        names += [x509.DNSName(host) for host in hosts]
        extensions: list[tuple[x509.ExtensionType, bool]] = []
        if names:
            extensions.append((x509.SubjectAlternativeName(names), False))
        if eku is not None:
            extensions.append((x509.ExtendedKeyUsage(list(eku)), False))
        if usage is not None:
            extensions.append((usage, True))
        if ca is not None:
            extensions.append((x509.BasicConstraints(ca, None), True))
        key = key or ec.generate_private_key(ec.SECP256R1())
        certificate = self._sign(
            name_of(common_name),
            key.public_key(),
            [*extensions, *extra],
            self.now + not_before_s,
            self.now + not_after_s,
            serial,
        )
        return Issued(certificate, key, self._sent())

    def below(self, common_name: str, *, usage: x509.KeyUsage | None = None) -> "Authority":
        """An intermediate CA."""
        key = ec.generate_private_key(ec.SECP256R1())
        extensions = [
            (x509.BasicConstraints(True, None), True),
            (usage or key_usage("key_cert_sign", "crl_sign"), True),
            (x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False),
        ]
        certificate = self._sign(
            name_of(common_name),
            key.public_key(),
            extensions,
            self.now - DAY_S,
            self.now + 30 * DAY_S,
            None,
        )
        authority = Authority(certificate, key, self._sent())
        authority.now = self.now
        return authority

    def crl(
        self,
        *serials: int,
        this_update_s: float = -3600,
        next_update_s: float = 3600,
        key: Any = None,
        extra: Sequence[tuple[x509.ExtensionType, bool]] = (),
        entry_extra: Sequence[tuple[x509.ExtensionType, bool]] = (),
    ) -> bytes:
        """A revocation list in PEM."""
        builder = (
            x509.CertificateRevocationListBuilder()
            .issuer_name(self.certificate.subject)
            .last_update(moment(self.now + this_update_s))
            .next_update(moment(self.now + next_update_s))
        )
        for serial in serials:
            entry = x509.RevokedCertificateBuilder().serial_number(serial)
            entry = entry.revocation_date(moment(self.now + this_update_s))
            for extension, critical in entry_extra:
                entry = entry.add_extension(extension, critical)
            builder = builder.add_revoked_certificate(entry.build())
        for extension, critical in extra:
            builder = builder.add_extension(extension, critical)
        signer = key or self.key
        return builder.sign(signer, hash_for(signer)).public_bytes(Encoding.PEM)

    def _sent(self) -> tuple[x509.Certificate, ...]:
        """What a holder sends besides its own: the CAs between it and the root."""
        is_root = self.certificate.subject == self.certificate.issuer
        return () if is_root else (self.certificate, *self.above)

    def _sign(
        self,
        subject: x509.Name,
        public_key: Any,
        extensions: Sequence[tuple[x509.ExtensionType, bool]],
        not_before: float,
        not_after: float,
        serial: int | None,
    ) -> x509.Certificate:
        aki = x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key())
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self.certificate.subject)
            .public_key(public_key)
            .serial_number(serial or x509.random_serial_number())
            .not_valid_before(moment(not_before))
            .not_valid_after(moment(not_after))
            .add_extension(aki, False)
        )
        for extension, critical in extensions:
            builder = builder.add_extension(extension, critical)
        return builder.sign(self.key, hash_for(self.key))


def make_root(common_name: str = "root", *, now: float = NOW, key: Any = None) -> Authority:
    key = key or ec.generate_private_key(ec.SECP256R1())
    builder = (
        x509.CertificateBuilder()
        .subject_name(name_of(common_name))
        .issuer_name(name_of(common_name))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(moment(now - 10 * DAY_S))
        .not_valid_after(moment(now + 365 * DAY_S))
        .add_extension(x509.BasicConstraints(True, None), True)
        .add_extension(key_usage("key_cert_sign", "crl_sign"), True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False)
    )
    authority = Authority(builder.sign(key, hash_for(key)), key)
    authority.now = now
    return authority


def b64(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()


_ABSENT = object()


@dataclass
class Mint:
    """An issuer's signing key and the tokens that it makes."""

    issuer: str = "https://idp.example"
    kid: str | None = "k1"
    alg: str = "ES256"
    key: Any = field(default_factory=lambda: ec.generate_private_key(ec.SECP256R1()))
    absent: Any = _ABSENT

    @property
    def jwk(self) -> dict[str, Any]:
        """The public key as the issuer publishes it."""
        algorithm = jwt.get_algorithm_by_name(self.alg)
        public = self.key if isinstance(self.key, bytes) else self.key.public_key()
        jwk = dict(algorithm.to_jwk(public, as_dict=True))
        jwk.pop("key_ops", None)
        return {**jwk, "kid": self.kid, "alg": self.alg, "use": "sig"}

    @property
    def jwks(self) -> dict[str, Any]:
        return {"keys": [self.jwk]}

    def claims(self, thumbprint: bytes | None, now: float = NOW, **changed: Any) -> dict[str, Any]:
        """A sound claim set; pass `name=value` to change one, `name=mint.absent` to drop it."""
        claims: dict[str, Any] = {
            "iss": self.issuer,
            "aud": "urn:sidegate",
            "sub": "billing",
            "client_id": "billing",
            "jti": "token-1",
            "iat": int(now) - 60,
            "exp": int(now) + 600,
            "scope": "log.publish log.read",
            "team": "pay",
        }
        if thumbprint is not None:
            claims["cnf"] = {"x5t#S256": b64(thumbprint)}
        claims |= changed
        return {name: value for name, value in claims.items() if value is not _ABSENT}

    def token(
        self,
        thumbprint: bytes | None,
        now: float = NOW,
        *,
        header: Mapping[str, Any] | None = None,
        **changed: Any,
    ) -> str:
        payload = json.dumps(self.claims(thumbprint, now, **changed)).encode()
        return self.sign(payload, header)

    def sign(self, payload: bytes, header: Mapping[str, Any] | None = None) -> str:
        """Any payload, signed; members of `header` replace the usual ones."""
        usual: dict[str, Any] = {"alg": self.alg, "typ": "at+jwt", "kid": self.kid}
        chosen = {k: v for k, v in {**usual, **(header or {})}.items() if v is not None}
        return self.sign_raw(json.dumps(chosen).encode(), payload)

    def sign_raw(self, header: bytes, payload: bytes) -> str:
        """Header and payload byte for byte as given, under a signature that holds."""
        signed = f"{b64(header)}.{b64(payload)}"
        algorithm = jwt.get_algorithm_by_name(self.alg)
        return f"{signed}.{b64(algorithm.sign(signed.encode(), self.key))}"


Responder = Callable[[web.Request], Any]


@dataclass
class IssuerServer:
    """A real HTTPS server on a free port. Paths without a responder answer 404."""

    url: str
    ca: Path
    routes: dict[str, Responder] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    def serve_json(self, path: str, document: Any) -> None:
        async def answer(request: web.Request) -> web.StreamResponse:
            return web.json_response(document)

        self.routes[path] = answer

    def serve_keys(self, document: Any, *, issuer: str | None = None) -> None:
        """Metadata and keys, as a usual OpenID provider has them."""
        self.serve_json(
            "/.well-known/openid-configuration",
            {"issuer": issuer or self.url, "jwks_uri": f"{self.url}/jwks"},
        )
        self.serve_json("/jwks", document)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(request.path)
        responder = self.routes.get(request.path)
        if responder is None:
            return web.Response(status=404)
        return await responder(request)


@pytest.fixture
def now() -> float:
    return NOW


@pytest.fixture(scope="session")
def new_root() -> Callable[..., Authority]:
    """Makes root CAs."""
    return make_root


@pytest.fixture(scope="session")
def root() -> Authority:
    """The CA of the trust domain `example`."""
    return make_root("example root")


@pytest.fixture(scope="session")
def new_mint() -> Callable[..., Mint]:
    """Makes issuers' keys; without arguments that of https://idp.example."""
    return Mint


@pytest.fixture(scope="session")
def mint() -> Mint:
    return Mint()


@pytest.fixture(scope="session")
def rsa_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


@pytest.fixture(scope="session")
def granted() -> Callable[..., x509.KeyUsage]:
    """A key usage extension with the named bits."""
    return key_usage


@pytest.fixture(scope="session")
def server_root() -> Authority:
    """A CA of today, for servers that real TLS clients talk to."""
    return make_root("server root", now=time.time())


@pytest.fixture
async def new_issuer_server(
    server_root: Authority, tmp_path: Path
) -> AsyncIterator[Callable[..., Any]]:
    """Starts HTTPS servers on free ports of 127.0.0.1; `trusted=False` makes one whose CA its
    clients do not know."""
    runners: list[web.AppRunner] = []

    async def start(*, trusted: bool = True, host: str = "localhost") -> IssuerServer:
        authority = server_root if trusted else make_root("unknown root", now=time.time())
        leaf = authority.leaf(None, hosts=[host], eku=[SERVER_AUTH])
        folder = tmp_path / f"server-{len(runners)}"
        folder.mkdir()
        (folder / "server.pem").write_bytes(leaf.pem)
        (folder / "server.key").write_bytes(leaf.key_pem)
        (folder / "ca.pem").write_bytes(server_root.pem)
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(folder / "server.pem", folder / "server.key")
        server = IssuerServer("", folder / "ca.pem")
        app = web.Application()
        app.router.add_get("/{path:.*}", server.handle)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        runners.append(runner)
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
        await site.start()
        server.url = f"https://localhost:{runner.addresses[0][1]}"
        return server

    yield start
    for runner in runners:
        await runner.cleanup()


@pytest.fixture
async def issuer_server(new_issuer_server: Callable[..., Any]) -> IssuerServer:
    return await new_issuer_server()


def _load_live() -> Any:
    """The fixtures of a running gatekeeper, which have a file of their own."""
    spec = spec_from_file_location("gatekeeper_live", Path(__file__).with_name("live.py"))
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


_live = _load_live()
live_root = _live.live_root
frame = _live.frame
wait_until = _live.wait_until
new_mesh = _live.new_mesh
mesh = _live.mesh
tree = _live.tree
