"""SPIFFE ids: their syntax, and the one that a certificate carries.

The syntax is pure; reading a certificate imports cryptography. Must never decide whether a
certificate is trusted: the caller has verified its chain before the id means anything.
"""

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from cryptography import x509

SPIFFE_ID_BYTES_MAX: Final = 2048
"""SPIFFE-ID, section 2.3: longer ones need not be supported by anybody."""
TRUST_DOMAIN_BYTES_MAX: Final = 255
"""SPIFFE-ID, section 2.3: the limit of a URI's host."""
_TRUST_DOMAIN: Final = re.compile(r"[a-z0-9._-]+", re.ASCII)
_SEGMENT: Final = re.compile(r"[A-Za-z0-9._-]+", re.ASCII)
_SCHEME: Final = "spiffe://"


class NotSpiffe(ValueError):
    """A text that is no SPIFFE id, or a certificate that carries none, with the reason."""


def trust_domain_of(spiffe_id: str) -> str:
    """The trust domain of a SPIFFE id whose syntax has been checked."""
    return spiffe_id.removeprefix(_SCHEME).partition("/")[0]


def parse_trust_domain(text: str) -> str:
    """`text` if it is a trust domain's name, or NotSpiffe."""
    if len(text) > TRUST_DOMAIN_BYTES_MAX:
        raise NotSpiffe(f"the trust domain is longer than {TRUST_DOMAIN_BYTES_MAX} bytes")
    if not _TRUST_DOMAIN.fullmatch(text):
        raise NotSpiffe(
            f"the trust domain {text!r} may hold lower-case letters, digits, dots, dashes and "
            "underscores only, and may not be empty"
        )
    return text


def parse_spiffe_id(text: str) -> str:
    """`text` if it is a workload's SPIFFE id in the form that the standard fixes, or NotSpiffe.

    A path is required, because an id without one names a trust domain's own authority
    (X509-SVID, section 3.1).
    """
    if len(text) > SPIFFE_ID_BYTES_MAX:
        raise NotSpiffe(f"the id is longer than {SPIFFE_ID_BYTES_MAX} bytes")
    if not text.startswith(_SCHEME):
        raise NotSpiffe(f"{text!r} does not begin with {_SCHEME}")
    domain, slash, path = text.removeprefix(_SCHEME).partition("/")
    parse_trust_domain(domain)
    if not slash or not path:
        raise NotSpiffe(f"{text!r} has no path, so it names no workload")
    for segment in path.split("/"):
        if segment in ("", ".", ".."):
            raise NotSpiffe(f"{text!r} has an empty or relative segment in its path")
        if not _SEGMENT.fullmatch(segment):
            raise NotSpiffe(
                f"the path of {text!r} may hold letters, digits, dots, dashes and underscores only"
            )
    return text


def spiffe_id_of(der: bytes) -> str:
    """The SPIFFE id of a leaf certificate, or NotSpiffe.

    X509-SVID, section 5.2: exactly one URI, of the scheme spiffe and with a path, on a
    certificate that is no authority and may sign neither certificates nor revocation lists.
    """
    from cryptography import x509  # noqa: PLC0415 - only those who read certificates pay for it

    try:
        certificate = x509.load_der_x509_certificate(der)
        extensions = certificate.extensions
    except (ValueError, x509.DuplicateExtension) as error:
        raise NotSpiffe(f"the certificate can't be read: {error}") from error
    try:
        names = extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        uris = names.get_values_for_type(x509.UniformResourceIdentifier)
    except x509.ExtensionNotFound:
        uris = []
    if len(uris) != 1:
        raise NotSpiffe(f"the certificate has {len(uris)} URIs where exactly one is allowed")
    _refuse_authority(extensions)
    return parse_spiffe_id(uris[0])


def _refuse_authority(extensions: "x509.Extensions") -> None:
    from cryptography import x509  # noqa: PLC0415

    for extension in extensions:
        value = extension.value
        if isinstance(value, x509.BasicConstraints) and value.ca:
            raise NotSpiffe("the certificate is an authority's and identifies no workload")
        if isinstance(value, x509.KeyUsage) and (value.key_cert_sign or value.crl_sign):
            raise NotSpiffe("the certificate's key may sign certificates or revocation lists")
