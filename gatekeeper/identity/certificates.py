"""A peer's certificate, verified again after the handshake: which workload it proves, if any.

One TLS context trusts every CA it knows for every name. So the path is built once more here, and
only to the CAs of the trust domain that the certificate itself claims: another domain's CA can
speak for its own workloads and for nobody else's. The name is the one SPIFFE URI, never the CN.
Pure; the path building is cryptography's (RFC 5280). Knows nothing of tokens or of files.
"""

import datetime as dt
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final, TypeVar

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509.oid import ExtendedKeyUsageOID
from cryptography.x509.verification import PolicyBuilder, Store, VerificationError

from gatekeeper.identity.authentication_errors import CertificateRefused, Reason, quoted
from hosting.spiffe import NotSpiffe, parse_spiffe_id, trust_domain_of
from log_format.limits import NAME_BYTES_MAX

CHAIN_CERTIFICATES_MAX: Final = 8
"""Certificates that a peer may send. Real paths have two to four."""
CERTIFICATE_BYTES_MAX: Final = 16 * 1024
"""One certificate. Real ones have 0.5 to 2 KiB."""
BUNDLE_CERTIFICATES_MAX: Final = 64
"""CAs of one trust domain: a few roots, twice during a rotation."""
_INTERMEDIATES_MAX: Final = 4
"""CAs between a leaf and its root: bounds the work of building a path."""
_RSA_BITS_MIN: Final = 2048
_CURVES: Final = frozenset({"secp256r1", "secp384r1", "secp521r1"})

MALFORMED: Final = (
    ValueError,
    UnsupportedAlgorithm,
    x509.DuplicateExtension,
    x509.InvalidVersion,
    x509.UnsupportedGeneralNameType,
)
"""What cryptography raises for DER that is no sound certificate or CRL."""

_Kind = TypeVar("_Kind", bound=x509.ExtensionType)


@dataclass(frozen=True, slots=True)
class PathLink:
    """One certificate of the verified path below its root, as revocation needs it."""

    serial: int
    issuer_name: bytes
    issuer_key: bytes
    issuer_signs_crls: bool


@dataclass(frozen=True, slots=True)
class PeerCertificate:
    """What a verified certificate proves. `thumbprint` is the SHA-256 of its DER form.

    The path holds from `path_not_before` to `path_not_after`; `chain` is what the peer sent.
    """

    spiffe_id: str
    trust_domain: str
    thumbprint: bytes
    serial: int
    issuer_name: str
    not_after: float
    path_not_before: float
    path_not_after: float
    links: tuple[PathLink, ...] = field(repr=False)
    chain: tuple[bytes, ...] = field(repr=False)


@dataclass(frozen=True, slots=True)
class TrustBundle:
    """The CAs that may speak for one trust domain."""

    trust_domain: str
    certificates: tuple[x509.Certificate, ...] = field(repr=False)
    store: Store = field(repr=False, compare=False)


class BadBundle(ValueError):
    """A bundle that must not be used. The message says which certificate and why."""


def load_bundle(trust_domain: str, pem: bytes) -> TrustBundle:
    """Read a domain's CAs from PEM. Every certificate in it becomes a root of trust."""
    try:
        certificates = x509.load_pem_x509_certificates(pem)
    except MALFORMED as error:
        raise BadBundle(f"no certificates in PEM could be read: {error}") from error
    if not 1 <= len(certificates) <= BUNDLE_CERTIFICATES_MAX:
        raise BadBundle(
            f"{len(certificates)} certificates; there must be 1 to {BUNDLE_CERTIFICATES_MAX}"
        )
    for number, certificate in enumerate(certificates, 1):
        try:
            extensions = certificate.extensions
        except MALFORMED as error:
            raise BadBundle(f"certificate {number} is malformed: {error}") from error
        if not _is_ca(extensions):
            raise BadBundle(f"certificate {number} is not a CA (basicConstraints)")
        for uri in _uris(extensions):
            if trust_domain_of(uri) != trust_domain:
                raise BadBundle(f"certificate {number} is of {quoted(uri)}, not of {trust_domain}")
    return TrustBundle(trust_domain, tuple(certificates), Store(certificates))


def verify_peer_chain(
    chain: Sequence[bytes], bundles: Mapping[str, TrustBundle], now: float
) -> PeerCertificate:
    """Verify what a peer sent, leaf first, as DER. Raises CertificateRefused with the reason."""
    certificates = _parse_chain(chain)
    leaf = certificates[0]
    spiffe_id = _spiffe_id(leaf)
    trust_domain = trust_domain_of(spiffe_id)
    bundle = bundles.get(trust_domain)
    if bundle is None:
        raise CertificateRefused(
            Reason.CERTIFICATE_UNKNOWN_DOMAIN,
            f"the certificate is of the trust domain {trust_domain}, which is not among "
            "the gatekeeper's trust_domains",
        )
    _check_purpose(leaf)
    _check_key(leaf)
    _check_validity(leaf, now)
    path = _build_path(leaf, certificates[1:], bundle, now)
    return PeerCertificate(
        spiffe_id=spiffe_id,
        trust_domain=trust_domain,
        thumbprint=hashlib.sha256(chain[0]).digest(),
        serial=leaf.serial_number,
        issuer_name=leaf.issuer.rfc4514_string(),
        not_after=leaf.not_valid_after_utc.timestamp(),
        path_not_before=max(item.not_valid_before_utc.timestamp() for item in path),
        path_not_after=min(item.not_valid_after_utc.timestamp() for item in path),
        links=tuple(_link(below, above) for below, above in pairwise(path)),
        chain=tuple(chain),
    )


def holds_at(peer: PeerCertificate, now: float) -> bool:
    """True while no certificate of the verified path is outside its validity, whose last second
    still counts (RFC 5280, section 4.1.2.5)."""
    return peer.path_not_before <= now <= peer.path_not_after


def _parse_chain(chain: Sequence[bytes]) -> list[x509.Certificate]:
    if not chain:
        raise CertificateRefused(
            Reason.CERTIFICATE_MISSING, "connect with a client certificate (mutual TLS)"
        )
    if len(chain) > CHAIN_CERTIFICATES_MAX:
        raise CertificateRefused(
            Reason.CERTIFICATE_MALFORMED,
            f"{len(chain)} certificates were sent; the limit is {CHAIN_CERTIFICATES_MAX}",
        )
    if any(len(der) > CERTIFICATE_BYTES_MAX for der in chain):
        raise CertificateRefused(
            Reason.CERTIFICATE_MALFORMED,
            f"a certificate has more than {CERTIFICATE_BYTES_MAX} bytes",
        )
    try:
        certificates = [x509.load_der_x509_certificate(der) for der in chain]
        for certificate in certificates:
            _ = certificate.extensions  # parsed lazily, and duplicates are found only then
    except MALFORMED as error:
        raise CertificateRefused(
            Reason.CERTIFICATE_MALFORMED, "a certificate in the chain is malformed"
        ) from error
    return certificates


def _spiffe_id(leaf: x509.Certificate) -> str:
    """X.509-SVID, section 2: exactly one URI, and it is the SPIFFE id."""
    uris = _uris(leaf.extensions)
    if not uris:
        raise CertificateRefused(
            Reason.CERTIFICATE_NO_SPIFFE_ID,
            "the certificate has no SPIFFE URI among its subject alternative names; a common name "
            "counts for nothing",
        )
    if len(uris) > 1:
        raise CertificateRefused(
            Reason.CERTIFICATE_SPIFFE_ID_AMBIGUOUS,
            f"the certificate has {len(uris)} URIs among its subject alternative names; it must "
            "have exactly one",
        )
    # The standard allows 2048 bytes; a batch's provenance has room for fewer.
    if len(uris[0]) > NAME_BYTES_MAX:
        raise CertificateRefused(
            Reason.CERTIFICATE_SPIFFE_ID_INVALID,
            f"the certificate's SPIFFE id has more than {NAME_BYTES_MAX} bytes",
        )
    try:
        return parse_spiffe_id(uris[0])
    except NotSpiffe as error:
        raise CertificateRefused(
            Reason.CERTIFICATE_SPIFFE_ID_INVALID,
            f"the certificate's URI is no workload's SPIFFE id: {error}",
        ) from error


def _check_purpose(leaf: x509.Certificate) -> None:
    extensions = leaf.extensions
    if _is_ca(extensions):
        raise CertificateRefused(
            Reason.CERTIFICATE_IS_CA, "the certificate is a CA's; a workload needs one of its own"
        )
    usage = _extension(extensions, x509.KeyUsage)
    if usage is not None and (usage.key_cert_sign or usage.crl_sign):
        raise CertificateRefused(
            Reason.CERTIFICATE_IS_CA, "the certificate's key may sign certificates or CRLs"
        )
    purposes = _extension(extensions, x509.ExtendedKeyUsage)
    # Without the extension, RFC 5280 would allow every purpose. A certificate that was made for
    # something else must not become a client's by omission, so it has to say so itself.
    if purposes is None or ExtendedKeyUsageOID.CLIENT_AUTH not in purposes:
        raise CertificateRefused(
            Reason.CERTIFICATE_NOT_FOR_CLIENTS,
            "the certificate's extended key usage does not include clientAuth",
        )
    if usage is not None and not usage.digital_signature:
        raise CertificateRefused(
            Reason.CERTIFICATE_NOT_FOR_CLIENTS,
            "the certificate's key usage does not include digitalSignature",
        )


def _check_key(leaf: x509.Certificate) -> None:
    """cryptography's verifier looks at the issuers' keys, not at the leaf's own."""
    try:
        key = leaf.public_key()
    except MALFORMED as error:
        raise CertificateRefused(
            Reason.CERTIFICATE_MALFORMED, "the certificate's key is malformed or of no known kind"
        ) from error
    match key:
        case RSAPublicKey():
            sound = key.key_size >= _RSA_BITS_MIN
        case EllipticCurvePublicKey():
            sound = key.curve.name in _CURVES
        case _:
            sound = isinstance(key, Ed25519PublicKey)
    if not sound:
        raise CertificateRefused(
            Reason.CERTIFICATE_KEY_WEAK,
            f"the certificate's key must be ECDSA P-256, P-384 or P-521, Ed25519, or RSA with at "
            f"least {_RSA_BITS_MIN} bits",
        )


def _check_validity(leaf: x509.Certificate, now: float) -> None:
    not_before = leaf.not_valid_before_utc.timestamp()
    not_after = leaf.not_valid_after_utc.timestamp()
    if not not_before <= now <= not_after:
        when = f"since {leaf.not_valid_after_utc:%Y-%m-%dT%H:%M:%SZ}"
        if now < not_before:
            when = f"until {leaf.not_valid_before_utc:%Y-%m-%dT%H:%M:%SZ}"
        raise CertificateRefused(
            Reason.CERTIFICATE_OUTSIDE_VALIDITY, f"the certificate is not valid {when}; renew it"
        )


def _build_path(
    leaf: x509.Certificate, between: list[x509.Certificate], bundle: TrustBundle, now: float
) -> list[x509.Certificate]:
    verifier = (
        PolicyBuilder()
        .store(bundle.store)
        .time(dt.datetime.fromtimestamp(now, dt.UTC))
        .max_chain_depth(_INTERMEDIATES_MAX)
        .build_client_verifier()
    )
    try:
        return verifier.verify(leaf, between).chain
    except VerificationError as error:
        raise CertificateRefused(
            Reason.CERTIFICATE_UNTRUSTED,
            f"no CA of the trust domain {bundle.trust_domain} vouches for the certificate: "
            f"{quoted(str(error))}",
        ) from error


def _link(below: x509.Certificate, above: x509.Certificate) -> PathLink:
    usage = _extension(above.extensions, x509.KeyUsage)
    return PathLink(
        serial=below.serial_number,
        issuer_name=above.subject.public_bytes(),
        issuer_key=above.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo),
        issuer_signs_crls=usage is None or usage.crl_sign,
    )


def _is_ca(extensions: x509.Extensions) -> bool:
    constraints = _extension(extensions, x509.BasicConstraints)
    return constraints is not None and constraints.ca


def _uris(extensions: x509.Extensions) -> list[str]:
    names = _extension(extensions, x509.SubjectAlternativeName)
    return [] if names is None else names.get_values_for_type(x509.UniformResourceIdentifier)


def _extension(extensions: x509.Extensions, kind: type[_Kind]) -> _Kind | None:
    try:
        return extensions.get_extension_for_class(kind).value
    except x509.ExtensionNotFound:
        return None
