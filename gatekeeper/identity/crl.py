"""Certificate revocation lists: read, held against the CA that signed them, and asked.

A list counts only for certificates of the very CA key that signed it, and only until its
`nextUpdate`. Partial lists (delta, indirect, by reason or distribution point) are refused, since
each would leave some revoked certificate out. Pure: files and reloading are elsewhere.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import load_der_public_key

from gatekeeper.identity.authentication_errors import CertificateRefused, Reason, RevocationUnknown
from gatekeeper.identity.certificates import MALFORMED, PathLink, PeerCertificate

CRL_BYTES_MAX: Final = 8 * 1024 * 1024
"""One file: about 200,000 revoked certificates, which take about a second to read."""
_PEM_BEGIN: Final = b"-----BEGIN X509 CRL-----"
_PEM_END: Final = b"-----END X509 CRL-----"
_KNOWN_EXTENSIONS: Final = (x509.AuthorityKeyIdentifier, x509.CRLNumber)


class BadCrl(ValueError):
    """A file of revocation lists that must not be used. The message says why."""


@dataclass(frozen=True, slots=True)
class Crl:
    """One list. `parsed` is kept for its signature, which is checked once its CA is known."""

    issuer_name: bytes
    serials: frozenset[int] = field(repr=False)
    this_update: float
    next_update: float
    parsed: x509.CertificateRevocationList = field(repr=False, compare=False)


def load_crls(data: bytes) -> tuple[Crl, ...]:
    """Read a file: one list in DER, or any number in PEM, one after the other."""
    if len(data) > CRL_BYTES_MAX:
        raise BadCrl(f"{len(data)} bytes; the limit is {CRL_BYTES_MAX}")
    try:
        if _PEM_BEGIN in data:
            parsed = [x509.load_pem_x509_crl(block) for block in _pem_blocks(data)]
        else:
            parsed = [x509.load_der_x509_crl(data)]
        return tuple(_checked(item) for item in parsed)
    except BadCrl:
        raise
    except MALFORMED as error:
        raise BadCrl(f"it holds no sound revocation list: {error}") from error


def check_signatures(crls: Iterable[Crl], cas: Sequence[x509.Certificate]) -> None:
    """Raise BadCrl for a list that names one of `cas` and is not signed by it.

    Says early what every request would find out. A list of an intermediate CA, which only comes
    with a peer's certificates, is held against that CA then.
    """
    for crl in crls:
        named = [ca for ca in cas if ca.subject.public_bytes() == crl.issuer_name]
        if named and not any(_signed(crl, ca.public_key()) for ca in named):
            raise BadCrl(
                f"the list of {crl.parsed.issuer.rfc4514_string()} is not signed by that CA"
            )


class DomainCrls:
    """The lists of one trust domain. A link of a path is asked by its CA's name and key.

    Used from one thread. Which list belongs to which CA is remembered; it never changes.
    """

    def __init__(self, crls: Iterable[Crl] = ()) -> None:
        newest_first = sorted(crls, key=lambda crl: crl.this_update, reverse=True)
        self.crls: Sequence[Crl] = tuple(newest_first)
        self._resolved: dict[tuple[bytes, bytes], Crl | None] = {}

    def check(self, peer: PeerCertificate, now: float) -> None:
        """Raise unless a current list covers every certificate of the path and names none."""
        for link in peer.links:
            crl = self._covering(link)
            if crl is None:
                raise RevocationUnknown(
                    Reason.CRL_MISSING,
                    f"{peer.trust_domain} requires a CRL, and none in its crl_file is signed by "
                    "the CA of this certificate; the operator has to add it",
                )
            if not crl.this_update <= now < crl.next_update:
                raise RevocationUnknown(
                    Reason.CRL_EXPIRED,
                    f"the CRL of {peer.trust_domain} is outside its validity (nextUpdate); the "
                    "operator has to bring a fresh one",
                )
            if link.serial in crl.serials:
                raise CertificateRefused(
                    Reason.CERTIFICATE_REVOKED,
                    "the certificate, or a CA above it, is on its CA's revocation list",
                )

    def current(self, now: float) -> bool:
        """True when there is a list, and none is outside its validity."""
        return bool(self.crls) and all(
            crl.this_update <= now < crl.next_update for crl in self.crls
        )

    def _covering(self, link: PathLink) -> Crl | None:
        wanted = (link.issuer_name, link.issuer_key)
        if wanted not in self._resolved:
            self._resolved[wanted] = self._find(link)
        return self._resolved[wanted]

    def _find(self, link: PathLink) -> Crl | None:
        # RFC 5280, section 6.3.3 (f): the CA's certificate must allow it to sign CRLs.
        named = [crl for crl in self.crls if crl.issuer_name == link.issuer_name]
        if not named or not link.issuer_signs_crls:
            return None
        key = load_der_public_key(link.issuer_key)
        return next((crl for crl in named if _signed(crl, key)), None)


def _signed(crl: Crl, key: object) -> bool:
    if not isinstance(key, RSAPublicKey | EllipticCurvePublicKey | Ed25519PublicKey):
        return False
    return crl.parsed.is_signature_valid(key)


def _checked(parsed: x509.CertificateRevocationList) -> Crl:
    if parsed.next_update_utc is None:
        raise BadCrl("a list has no nextUpdate, which RFC 5280, section 5.1.2.5, requires")
    for extension in parsed.extensions:
        if extension.critical and not isinstance(extension.value, _KNOWN_EXTENSIONS):
            raise BadCrl(
                f"a list has the critical extension {extension.oid.dotted_string}: it is partial "
                "or indirect, and only complete lists of a CA's own certificates are supported"
            )
    serials = set()
    for revoked in parsed:
        if any(extension.critical for extension in revoked.extensions):
            raise BadCrl("an entry has a critical extension; indirect lists are not supported")
        serials.add(revoked.serial_number)
    return Crl(
        issuer_name=parsed.issuer.public_bytes(),
        serials=frozenset(serials),
        this_update=parsed.last_update_utc.timestamp(),
        next_update=parsed.next_update_utc.timestamp(),
        parsed=parsed,
    )


def _pem_blocks(data: bytes) -> Iterable[bytes]:
    for piece in data.split(_PEM_BEGIN)[1:]:
        body, end, _rest = piece.partition(_PEM_END)
        if not end:
            raise BadCrl("a PEM block does not end")
        yield _PEM_BEGIN + body + _PEM_END + b"\n"
