"""A peer's certificate after the handshake: what it proves, and every way in which it does not."""

import datetime as dt
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID

from gatekeeper.identity.authentication_errors import CertificateRefused, Reason
from gatekeeper.identity.certificates import (
    BadBundle,
    TrustBundle,
    holds_at,
    load_bundle,
    verify_peer_chain,
)

CLIENT_AUTH = ExtendedKeyUsageOID.CLIENT_AUTH
SERVER_AUTH = ExtendedKeyUsageOID.SERVER_AUTH


@pytest.fixture(scope="module")
def other_root(new_root):
    return new_root("other root")


@pytest.fixture(scope="module")
def bundles(root, other_root) -> Mapping[str, TrustBundle]:
    return {
        "example": load_bundle("example", root.pem),
        "other": load_bundle("other", other_root.pem),
    }


@pytest.fixture
def refusal(bundles, now) -> Callable[..., Reason]:
    def refuse(chain: Any, at: float = now) -> Reason:
        with pytest.raises(CertificateRefused) as caught:
            verify_peer_chain(chain, bundles, at)
        return caught.value.reason

    return refuse


def test_a_sound_certificate_proves_its_spiffe_id(root, bundles, now) -> None:
    leaf = root.leaf("spiffe://example/ns/pay/sa/billing", common_name="somebody else")
    peer = verify_peer_chain(leaf.chain, bundles, now)
    assert peer.spiffe_id == "spiffe://example/ns/pay/sa/billing"
    assert peer.trust_domain == "example"
    assert peer.thumbprint == leaf.thumbprint
    assert peer.serial == leaf.serial
    assert peer.issuer_name == "CN=example root"
    assert peer.not_after == pytest.approx(now + 86_400)
    assert [link.serial for link in peer.links] == [leaf.serial]
    assert peer.chain == leaf.chain


def test_a_certificate_for_servers_and_clients_will_do(root, bundles, now) -> None:
    leaf = root.leaf(eku=[SERVER_AUTH, CLIENT_AUTH], hosts=["localhost"])
    assert verify_peer_chain(leaf.chain, bundles, now).spiffe_id == "spiffe://example/app"


@pytest.mark.parametrize(
    "key",
    [
        ec.generate_private_key(ec.SECP384R1()),
        ec.generate_private_key(ec.SECP521R1()),
        ed25519.Ed25519PrivateKey.generate(),
    ],
    ids=["P-384", "P-521", "Ed25519"],
)
def test_other_sound_keys_will_do(root, bundles, now, key) -> None:
    assert verify_peer_chain(root.leaf(key=key).chain, bundles, now)


def test_intermediate_cas_that_the_peer_sends_are_used(root, bundles, now) -> None:
    leaf = root.below("intermediate").leaf()
    assert len(leaf.chain) == 2
    peer = verify_peer_chain(leaf.chain, bundles, now)
    assert len(peer.links) == 2
    assert peer.links[0].issuer_key != peer.links[1].issuer_key


def test_a_missing_intermediate_is_not_guessed(root, refusal) -> None:
    leaf = root.below("intermediate").leaf()
    assert refusal(leaf.chain[:1]) is Reason.CERTIFICATE_UNTRUSTED


def test_no_certificate_proves_nothing(refusal) -> None:
    assert refusal(()) is Reason.CERTIFICATE_MISSING


@pytest.mark.parametrize("der", [b"", b"garbage", bytes(100), b"\x30\x80" + bytes(50)])
def test_garbage_is_refused(refusal, der) -> None:
    assert refusal((der,)) is Reason.CERTIFICATE_MALFORMED


def test_a_truncated_certificate_is_refused(root, refusal) -> None:
    der = root.leaf().der
    assert refusal((der[:-1],)) is Reason.CERTIFICATE_MALFORMED
    assert refusal((der + b"\0",)) is Reason.CERTIFICATE_MALFORMED


@pytest.mark.filterwarnings("ignore:Parsed a serial number")
@pytest.mark.parametrize("damaged", ["leaf", "leaf below", "intermediate"])
def test_every_flipped_bit_of_what_is_signed_is_refused_with_a_reason(
    root, bundles, granted, now, damaged
) -> None:
    """Behind what is signed stands the signature, which ECDSA and DER can write in several ways:
    a flip there may pass, and proves the same workload and serial as before."""
    issued = root.leaf(usage=granted("digital_signature"), hosts=["app.example"])
    if damaged != "leaf":
        issued = root.below("intermediate").leaf()
    number = 1 if damaged == "intermediate" else 0
    der = issued.chain[number]
    signed = x509.load_der_x509_certificate(der).tbs_certificate_bytes
    signed_ends = der.index(signed) + len(signed)
    proven = verify_peer_chain(issued.chain, bundles, now)
    for at in range(len(der) * 8):
        flipped = bytearray(der)
        flipped[at // 8] ^= 1 << (at % 8)
        chain = [*issued.chain[:number], bytes(flipped), *issued.chain[number + 1 :]]
        try:
            peer = verify_peer_chain(chain, bundles, now)
        except CertificateRefused:
            continue
        assert at // 8 >= signed_ends
        assert (peer.spiffe_id, peer.links) == (proven.spiffe_id, proven.links)


def test_chains_are_bounded(root, refusal) -> None:
    leaf = root.leaf()
    assert refusal((leaf.der,) * 9) is Reason.CERTIFICATE_MALFORMED
    assert refusal((leaf.der, bytes(20_000))) is Reason.CERTIFICATE_MALFORMED


@pytest.mark.parametrize("eku", [None, [SERVER_AUTH], [ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE]])
def test_a_certificate_that_does_not_say_client_auth_is_refused(root, refusal, eku) -> None:
    assert refusal(root.leaf(eku=eku).chain) is Reason.CERTIFICATE_NOT_FOR_CLIENTS


def test_a_key_that_may_not_sign_is_refused(root, refusal, granted) -> None:
    leaf = root.leaf(usage=granted("key_encipherment"))
    assert refusal(leaf.chain) is Reason.CERTIFICATE_NOT_FOR_CLIENTS


def test_a_common_name_counts_for_nothing(root, refusal) -> None:
    leaf = root.leaf(None, common_name="spiffe://example/app")
    assert refusal(leaf.chain) is Reason.CERTIFICATE_NO_SPIFFE_ID
    named = root.leaf(None, common_name="spiffe://example/app", hosts=["example"])
    assert refusal(named.chain) is Reason.CERTIFICATE_NO_SPIFFE_ID


@pytest.mark.parametrize(
    "uris",
    [
        ["spiffe://example/a", "spiffe://example/b"],
        ["spiffe://example/a", "spiffe://example/a"],
        ["spiffe://example/a", "https://example/a"],
    ],
)
def test_more_than_one_uri_is_refused(root, refusal, uris) -> None:
    assert refusal(root.leaf(uris=uris).chain) is Reason.CERTIFICATE_SPIFFE_ID_AMBIGUOUS


@pytest.mark.parametrize(
    "uri",
    [
        "https://example/app",
        "spiffe://example",
        "spiffe://example/",
        "spiffe://example/a/../b",
        "spiffe://example/a//b",
        "spiffe://example/a/",
        "spiffe://EXAMPLE/app",
        "spiffe://example:443/app",
        "spiffe://user@example/app",
        "spiffe://example/a%2Fb",
        "spiffe://example/a?b",
        "spiffe://example/a#b",
        "SPIFFE://example/app",
        "spiffe:///app",
        "spiffe://example/" + "a" * 600,
    ],
)
def test_a_misspelt_spiffe_id_is_refused(root, refusal, uri) -> None:
    assert refusal(root.leaf(uri).chain) is Reason.CERTIFICATE_SPIFFE_ID_INVALID


def test_another_domains_ca_cannot_speak_for_this_domain(other_root, refusal) -> None:
    forged = other_root.leaf("spiffe://example/app")
    assert refusal(forged.chain) is Reason.CERTIFICATE_UNTRUSTED


def test_an_unknown_domain_is_refused_whoever_signed(root, refusal) -> None:
    leaf = root.leaf("spiffe://elsewhere/app")
    assert refusal(leaf.chain) is Reason.CERTIFICATE_UNKNOWN_DOMAIN


def test_a_ca_of_the_same_name_with_another_key_is_refused(new_root, refusal) -> None:
    impostor = new_root("example root")
    assert refusal(impostor.leaf().chain) is Reason.CERTIFICATE_UNTRUSTED


def test_a_self_signed_certificate_is_refused(new_root, refusal) -> None:
    stranger = new_root("stranger")
    assert refusal(stranger.leaf().chain) is Reason.CERTIFICATE_UNTRUSTED
    assert refusal((stranger.leaf().der, stranger.der)) is Reason.CERTIFICATE_UNTRUSTED


def test_a_ca_cannot_be_a_workload(root, refusal, granted) -> None:
    assert refusal(root.leaf(ca=True).chain) is Reason.CERTIFICATE_IS_CA
    for bit in ("key_cert_sign", "crl_sign"):
        leaf = root.leaf(usage=granted("digital_signature", bit))
        assert refusal(leaf.chain) is Reason.CERTIFICATE_IS_CA


def test_a_workload_cannot_be_a_ca(root, refusal) -> None:
    """A stolen leaf key must not make further identities."""
    stolen = root.leaf("spiffe://example/low")
    authority = type(root)(stolen.certificate, stolen.key, (stolen.certificate,))
    forged = authority.leaf("spiffe://example/high")
    assert refusal((forged.der, stolen.der)) is Reason.CERTIFICATE_UNTRUSTED


def test_an_intermediate_that_may_not_sign_certificates_is_refused(root, refusal, granted) -> None:
    leaf = root.below("no signer", usage=granted("digital_signature")).leaf()
    assert refusal(leaf.chain) is Reason.CERTIFICATE_UNTRUSTED


def test_unknown_critical_extensions_are_refused(root, refusal) -> None:
    oid = x509.ObjectIdentifier("1.3.6.1.4.1.99999.1")
    leaf = root.leaf(extra=[(x509.UnrecognizedExtension(oid, b"\x05\x00"), True)])
    assert refusal(leaf.chain) is Reason.CERTIFICATE_UNTRUSTED


def test_a_weak_key_is_refused(root, refusal) -> None:
    weak = rsa.generate_private_key(public_exponent=65537, key_size=1024)  # noqa: S505 - on purpose
    assert refusal(root.leaf(key=weak).chain) is Reason.CERTIFICATE_KEY_WEAK
    koblitz = ec.generate_private_key(ec.SECP256K1())
    assert refusal(root.leaf(key=koblitz).chain) is Reason.CERTIFICATE_KEY_WEAK


def test_validity_is_that_of_the_moment_asked_for(root, bundles, refusal, now) -> None:
    leaf = root.leaf(not_before_s=-100, not_after_s=100)
    assert verify_peer_chain(leaf.chain, bundles, now + 100)
    assert refusal(leaf.chain, now + 101) is Reason.CERTIFICATE_OUTSIDE_VALIDITY
    assert refusal(leaf.chain, now - 101) is Reason.CERTIFICATE_OUTSIDE_VALIDITY


def test_the_whole_path_must_be_valid(root, bundles, now) -> None:
    intermediate = root.below("short-lived")
    leaf = intermediate.leaf(not_after_s=100 * 86_400)
    peer = verify_peer_chain(leaf.chain, bundles, now)
    assert peer.path_not_after < peer.not_after
    assert holds_at(peer, now)
    assert holds_at(peer, peer.path_not_after)
    assert not holds_at(peer, peer.path_not_after + 1)
    assert not holds_at(peer, now - 2 * 86_400)
    with pytest.raises(CertificateRefused):
        verify_peer_chain(leaf.chain, bundles, peer.path_not_after + 1)


def test_the_message_of_a_forgery_is_short_and_clean(other_root, bundles, now) -> None:
    forged = other_root.leaf("spiffe://example/app", common_name="\r\nInjected: yes" + "x" * 40)
    with pytest.raises(CertificateRefused) as caught:
        verify_peer_chain(forged.chain, bundles, now)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


def test_a_bundle_may_hold_several_roots(root, new_root, now) -> None:
    new = new_root("next root")
    bundle = load_bundle("example", root.pem + new.pem)
    for authority in (root, new):
        assert verify_peer_chain(authority.leaf().chain, {"example": bundle}, now)


def test_bundles_that_would_trust_too_much_are_refused(root, new_root) -> None:
    for pem, names in (
        (b"", "could be read"),
        (b"text", "could be read"),
        (root.pem.replace(b"MII", b"MIX", 1), "could be read"),
        (root.leaf().pem, "not a CA"),
        (root.pem * 65, "1 to 64"),
    ):
        with pytest.raises(BadBundle, match=names):
            load_bundle("example", pem)


def test_a_bundle_of_another_domain_is_noticed(now) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([])
    uri = x509.UniformResourceIdentifier("spiffe://other")
    moment = dt.datetime.fromtimestamp(now, dt.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(moment)
        .not_valid_after(moment + dt.timedelta(days=1))
        .add_extension(x509.BasicConstraints(True, None), True)
        .add_extension(x509.SubjectAlternativeName([uri]), True)
    )
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.serialization import Encoding

    pem = certificate.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM)
    assert load_bundle("other", pem)
    with pytest.raises(BadBundle, match="not of example"):
        load_bundle("example", pem)
