"""The development certificates pass the verifiers that the services use, and no laxer ones."""

import datetime as dt
import ipaddress

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID
from cryptography.x509.verification import PolicyBuilder, Store, VerificationError

from sidegate.development import ca
from sidegate.development.ca import Leaf

NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
SERVER = Leaf("core", "spiffe://sidegate-dev/core", server=True, client=True)
CLIENT = Leaf("sidecar", "spiffe://sidegate-dev/app/dev", server=False, client=True)


@pytest.fixture(scope="module")
def root_key() -> bytes:
    return ca.new_key()


@pytest.fixture(scope="module")
def root(root_key: bytes) -> bytes:
    return ca.issue_root(root_key, NOW)


def issue(root: bytes, root_key: bytes, leaf: Leaf, now: dt.datetime = NOW) -> tuple[bytes, bytes]:
    key = ca.new_key()
    return key, ca.issue_leaf(root, root_key, leaf, key, now)


def policy(root: bytes) -> PolicyBuilder:
    return PolicyBuilder().store(Store([x509.load_pem_x509_certificate(root)])).time(NOW)


def names(certificate: x509.Certificate) -> x509.SubjectAlternativeName:
    return certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value


def test_a_client_certificate_verifies_and_carries_exactly_one_spiffe_uri(
    root: bytes, root_key: bytes
) -> None:
    _, pem = issue(root, root_key, CLIENT)
    certificate = x509.load_pem_x509_certificate(pem)
    store = Store([x509.load_pem_x509_certificate(root)])
    verified = (
        PolicyBuilder().store(store).time(NOW).build_client_verifier().verify(certificate, [])
    )
    assert verified.subjects is not None
    assert names(certificate).get_values_for_type(x509.UniformResourceIdentifier) == [
        CLIENT.spiffe_id
    ]


def test_a_client_certificate_is_no_server(root: bytes, root_key: bytes) -> None:
    _, pem = issue(root, root_key, CLIENT)
    store = Store([x509.load_pem_x509_certificate(root)])
    verifier = (
        PolicyBuilder().store(store).time(NOW).build_server_verifier(x509.DNSName("localhost"))
    )
    with pytest.raises(VerificationError):
        verifier.verify(x509.load_pem_x509_certificate(pem), [])


def test_a_server_certificate_names_this_machine_and_serves_as_client_too(
    root: bytes, root_key: bytes
) -> None:
    _, pem = issue(root, root_key, SERVER)
    certificate = x509.load_pem_x509_certificate(pem)
    builder = policy(root)
    loopback = [x509.IPAddress(ipaddress.ip_address(text)) for text in ("127.0.0.1", "::1")]
    for subject in (x509.DNSName("localhost"), *loopback):
        builder.build_server_verifier(subject).verify(certificate, [])
    usages = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert set(usages) == {ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH}


def test_a_certificate_of_another_root_does_not_verify(root: bytes) -> None:
    other_key = ca.new_key()
    other = ca.issue_root(other_key, NOW)
    key, pem = issue(other, other_key, CLIENT)
    verifier = policy(root).build_client_verifier()
    with pytest.raises(VerificationError):
        verifier.verify(x509.load_pem_x509_certificate(pem), [])
    assert not ca.leaf_is_usable(root, CLIENT, key, pem, NOW)


@pytest.mark.parametrize(("days", "usable"), [(0, True), (19, True), (21, False), (40, False)])
def test_a_leaf_is_renewed_when_ten_of_its_thirty_days_are_left(
    root: bytes, root_key: bytes, days: int, *, usable: bool
) -> None:
    key, pem = issue(root, root_key, CLIENT)
    assert ca.leaf_is_usable(root, CLIENT, key, pem, NOW + dt.timedelta(days=days)) is usable


def test_a_leaf_of_another_identity_or_key_is_not_usable(root: bytes, root_key: bytes) -> None:
    key, pem = issue(root, root_key, CLIENT)
    assert not ca.leaf_is_usable(root, SERVER, key, pem, NOW)
    assert not ca.leaf_is_usable(root, CLIENT, ca.new_key(), pem, NOW)


def test_a_root_is_renewed_before_a_leaf_could_outlive_it(root: bytes) -> None:
    assert ca.root_is_usable(root, NOW)
    last = NOW + ca.ROOT_LIFE - ca.LEAF_LIFE
    assert not ca.root_is_usable(root, last)


def test_leaves_stay_usable_under_a_renewed_root_of_the_same_key(
    root: bytes, root_key: bytes
) -> None:
    later = NOW + dt.timedelta(days=5)
    key, pem = issue(root, root_key, CLIENT)
    assert ca.leaf_is_usable(ca.issue_root(root_key, later), CLIENT, key, pem, later)
