"""TLS 1.3 contexts for servers and clients, and the files that they come from.

Only TLS 1.3, because TLS 1.2 resumes sessions even with tickets off, also for certificates that
were revoked since. May import ssl and, for names and dates, cryptography. Must never know who
may call whom.
"""

import ssl
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from hosting.lifecycle import StartError
from hosting.spiffe import NotSpiffe, spiffe_id_of

_ALPN: Final = ("http/1.1",)
_PRIVATE_MODE: Final = 0o600


class TlsError(StartError):
    """Files that make no TLS context. The message names them and the next step."""


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """A certificate chain and its private key, in PEM; `ca` verifies the other side.

    May be used as a section of a configuration.
    """

    certificate: Path
    key: Path
    ca: Path | None = None


Bundles = Path | Sequence[Path]
"""One file of CA certificates, or several."""


def server_context(
    files: TlsFiles, *, client_ca: Bundles | None = None, client_optional: bool = False
) -> ssl.SSLContext:
    """A server's context. With `client_ca`, a client without a certificate of it is refused.

    Where `client_optional`, one without any certificate is let in; the application decides.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _only_tls_13(context)
    # A resumed session would skip the certificate, and with it every check of it.
    context.num_tickets = 0
    _load_pair(context, files)
    if client_ca is not None:
        _trust(context, client_ca)
        context.verify_mode = ssl.CERT_OPTIONAL if client_optional else ssl.CERT_REQUIRED
    return context


def client_context(
    files: TlsFiles | None, ca: Bundles | None, *, check_hostname: bool = True
) -> ssl.SSLContext:
    """A client's context: presents `files` where given, and trusts `ca`, or else the system's.

    Turn `check_hostname` off only where something else checks whom the certificate names, as
    `hosting.connector.SpiffeConnector` does.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    _only_tls_13(context)
    context.check_hostname = check_hostname
    context.verify_mode = ssl.CERT_REQUIRED
    if files is not None:
        _load_pair(context, files)
    if ca is None:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    else:
        _trust(context, ca)
    return context


@dataclass(frozen=True, slots=True)
class Leaf:
    """The first certificate of a chain file."""

    der: bytes
    not_before: datetime
    not_after: datetime
    spiffe_id: str | None


def read_leaf(certificate: Path) -> Leaf:
    """The certificate that `certificate` presents, or TlsError."""
    from cryptography import x509  # noqa: PLC0415 - only those who read certificates pay for it
    from cryptography.hazmat.primitives.serialization import Encoding  # noqa: PLC0415

    try:
        leaf = x509.load_pem_x509_certificates(certificate.read_bytes())[0]
    except (OSError, ValueError) as error:
        raise TlsError(f"{certificate}: holds no certificate in PEM: {error}") from error
    der = leaf.public_bytes(Encoding.DER)
    try:
        spiffe_id = spiffe_id_of(der)
    except NotSpiffe:
        spiffe_id = None
    return Leaf(der, leaf.not_valid_before_utc, leaf.not_valid_after_utc, spiffe_id)


def private_key_warnings(*keys: Path) -> Iterator[str]:
    """A sentence for each private key file that others than its owner may read."""
    for key in keys:
        try:
            mode = key.stat().st_mode & 0o777
        except OSError:
            continue
        if mode & ~_PRIVATE_MODE:
            yield f"{key} has mode {mode:04o}, wider than 0600; run chmod 600 {key}"


def as_paths(bundles: Bundles | None) -> tuple[Path, ...]:
    """The files of `bundles`, however many."""
    if bundles is None:
        return ()
    return (bundles,) if isinstance(bundles, Path) else tuple(bundles)


def _only_tls_13(context: ssl.SSLContext) -> None:
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.maximum_version = ssl.TLSVersion.TLSv1_3
    context.set_alpn_protocols(list(_ALPN))
    # A bundle's certificates are all trust anchors, also those that another CA has signed.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN


def _load_pair(context: ssl.SSLContext, files: TlsFiles) -> None:
    for path in (files.certificate, files.key):
        _refuse_unreadable(path)
    try:
        # An encrypted key would make OpenSSL ask on the terminal; an empty password fails instead.
        context.load_cert_chain(files.certificate, files.key, password="")
    except (ssl.SSLError, ValueError) as error:
        raise TlsError(
            f"{files.certificate} and {files.key} are no certificate and matching unencrypted "
            f"key in PEM: {_reason(error)}"
        ) from error


def _trust(context: ssl.SSLContext, bundles: Bundles) -> None:
    for path in as_paths(bundles):
        _refuse_unreadable(path)
        try:
            context.load_verify_locations(cafile=path)
        except (ssl.SSLError, ValueError) as error:
            raise TlsError(f"{path} holds no CA certificate in PEM: {_reason(error)}") from error


def _refuse_unreadable(path: Path) -> None:
    try:
        with path.open("rb"):
            pass
    except OSError as error:
        raise TlsError(f"{path} can't be read: {(error.strerror or str(error)).lower()}") from error


def _reason(error: Exception) -> str:
    reason = getattr(error, "reason", None)
    return str(reason or error).replace("_", " ").lower()
