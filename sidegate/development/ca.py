"""The development CA: makes its own root and the leaf certificates of the development services.

Pure: it takes keys, names and `now`, and returns PEM bytes; where they are kept is not its
business. Nothing here is meant for production, where certificates come from the user's own CA.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

# A root that outlives the usual life of a checkout; when it runs out, everything is made anew.
ROOT_LIFE = timedelta(days=730)
# Short, because a development key lies unprotected on a laptop's disk.
LEAF_LIFE = timedelta(days=30)
# Renewed when a third of its life is left, so that a machine that slept a week still starts.
LEAF_RENEWED_BEFORE_END = timedelta(days=10)
# A root must outlive the leaves that it signs.
ROOT_RENEWED_BEFORE_END = LEAF_LIFE + timedelta(days=1)
# Containers and virtual machines wake up with clocks that lag a little.
BACKDATED = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class Leaf:
    """Who a certificate speaks for: one SPIFFE id, and as server, as client, or as both.

    A server is found at this machine's loopback addresses, and at `hosts` besides.
    """

    name: str
    spiffe_id: str
    server: bool
    client: bool
    hosts: tuple[str, ...] = ()


def new_key() -> bytes:
    """A fresh P-256 private key as PEM."""
    return ec.generate_private_key(ec.SECP256R1()).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def issue_root(key_pem: bytes, now: datetime) -> bytes:
    """The root certificate of `key_pem`, self-signed. It can sign leaves and no further CA."""
    key = _private_key(key_pem)
    name = _name("Sidegate development CA")
    builder = _builder(name, name, key.public_key(), now, ROOT_LIFE)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(_key_usage(signs_certificates=True), critical=True)
    return _signed(builder, key)


def issue_leaf(
    root_pem: bytes, root_key_pem: bytes, leaf: Leaf, key_pem: bytes, now: datetime
) -> bytes:
    """The certificate that says that `key_pem` belongs to `leaf`."""
    root = x509.load_pem_x509_certificate(root_pem)
    root_key = _private_key(root_key_pem)
    builder = _builder(
        _name(leaf.name), root.subject, _private_key(key_pem).public_key(), now, LEAF_LIFE
    )
    names: list[x509.GeneralName] = [x509.UniformResourceIdentifier(leaf.spiffe_id)]
    usages: list[x509.ObjectIdentifier] = []
    if leaf.server:
        names += [x509.DNSName(host) for host in ("localhost", *leaf.hosts)]
        names.append(x509.IPAddress(ipaddress.IPv4Address("127.0.0.1")))
        names.append(x509.IPAddress(ipaddress.IPv6Address("::1")))
        usages.append(ExtendedKeyUsageOID.SERVER_AUTH)
    if leaf.client:
        usages.append(ExtendedKeyUsageOID.CLIENT_AUTH)
    extensions: list[tuple[x509.ExtensionType, bool]] = [
        (x509.SubjectAlternativeName(names), False),
        (x509.BasicConstraints(ca=False, path_length=None), True),
        (_key_usage(signs_certificates=False), True),
        (x509.ExtendedKeyUsage(usages), False),
        # Strict verifiers (Python 3.13's default context, for one) ask for it.
        (x509.AuthorityKeyIdentifier.from_issuer_public_key(root_key.public_key()), False),
    ]
    for extension, critical in extensions:
        builder = builder.add_extension(extension, critical=critical)
    return _signed(builder, root_key)


def root_is_usable(root_pem: bytes, now: datetime) -> bool:
    """Whether a root is valid long enough for the leaves that it signs today."""
    root = x509.load_pem_x509_certificate(root_pem)
    return root.not_valid_before_utc <= now <= root.not_valid_after_utc - ROOT_RENEWED_BEFORE_END


def leaf_is_usable(
    root_pem: bytes, leaf: Leaf, key_pem: bytes, leaf_pem: bytes, now: datetime
) -> bool:
    """Whether a kept certificate is this root's, this leaf's and this key's, and fresh enough."""
    certificate = x509.load_pem_x509_certificate(leaf_pem)
    root = x509.load_pem_x509_certificate(root_pem)
    try:
        certificate.verify_directly_issued_by(root)
    except (ValueError, TypeError, InvalidSignature):
        return False
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    last_day = certificate.not_valid_after_utc - LEAF_RENEWED_BEFORE_END
    return (
        names.get_values_for_type(x509.UniformResourceIdentifier) == [leaf.spiffe_id]
        and set(leaf.hosts) <= set(names.get_values_for_type(x509.DNSName))
        and certificate.public_key() == _private_key(key_pem).public_key()
        and certificate.not_valid_before_utc <= now <= last_day
    )


def utc_now() -> datetime:
    """The clock of whoever calls this module from a shell."""
    return datetime.now(UTC)


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    public_key: ec.EllipticCurvePublicKey,
    now: datetime,
    life: timedelta,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - BACKDATED)
        .not_valid_after(now + life)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
    )


def _signed(builder: x509.CertificateBuilder, key: ec.EllipticCurvePrivateKey) -> bytes:
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _private_key(pem: bytes) -> ec.EllipticCurvePrivateKey:
    key = serialization.load_pem_private_key(pem, password=None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise TypeError(f"a development key is an EC key, not a {type(key).__name__}")
    return key
