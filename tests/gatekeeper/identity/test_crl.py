"""Revocation lists: whose they are, how long they count, and what they say."""

from collections.abc import Callable

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from gatekeeper.identity.authentication_errors import CertificateRefused, Reason, RevocationUnknown
from gatekeeper.identity.certificates import PeerCertificate, load_bundle, verify_peer_chain
from gatekeeper.identity.crl import BadCrl, DomainCrls, check_signatures, load_crls


@pytest.fixture
def peer_of(root, now) -> Callable[..., PeerCertificate]:
    bundles = {"example": load_bundle("example", root.pem)}
    return lambda issued: verify_peer_chain(issued.chain, bundles, now)


def refusal(crls: DomainCrls, peer: PeerCertificate, now: float) -> Reason:
    with pytest.raises(CertificateRefused) as caught:
        crls.check(peer, now)
    return caught.value.reason


def test_a_certificate_that_no_list_names_passes(root, peer_of, now) -> None:
    DomainCrls(load_crls(root.crl(4711))).check(peer_of(root.leaf()), now)


def test_a_revoked_certificate_is_refused(root, peer_of, now) -> None:
    leaf = root.leaf()
    crls = DomainCrls(load_crls(root.crl(4711, leaf.serial)))
    assert refusal(crls, peer_of(leaf), now) is Reason.CERTIFICATE_REVOKED


def test_der_is_read_too(root, peer_of, now) -> None:
    leaf = root.leaf()
    der = x509.load_pem_x509_crl(root.crl(leaf.serial)).public_bytes(Encoding.DER)
    assert refusal(DomainCrls(load_crls(der)), peer_of(leaf), now) is Reason.CERTIFICATE_REVOKED


def test_without_a_list_nobody_passes(root, peer_of, now) -> None:
    peer = peer_of(root.leaf())
    assert refusal(DomainCrls(), peer, now) is Reason.CRL_MISSING
    with pytest.raises(RevocationUnknown):
        DomainCrls().check(peer, now)


def test_an_expired_list_lets_nobody_pass(root, peer_of, now) -> None:
    crls = DomainCrls(load_crls(root.crl(next_update_s=100)))
    peer = peer_of(root.leaf())
    crls.check(peer, now + 99)
    assert crls.current(now + 99)
    assert refusal(crls, peer, now + 100) is Reason.CRL_EXPIRED
    assert not crls.current(now + 100)


def test_a_list_from_the_future_lets_nobody_pass(root, peer_of, now) -> None:
    crls = DomainCrls(load_crls(root.crl(this_update_s=100)))
    assert refusal(crls, peer_of(root.leaf()), now) is Reason.CRL_EXPIRED


def test_a_list_that_another_key_signed_does_not_count(root, new_root, peer_of, now) -> None:
    forged = root.crl(key=new_root().key)
    assert refusal(DomainCrls(load_crls(forged)), peer_of(root.leaf()), now) is Reason.CRL_MISSING
    with pytest.raises(BadCrl, match="not signed by that CA"):
        check_signatures(load_crls(forged), [root.certificate])
    check_signatures(load_crls(root.crl()), [root.certificate])


def test_a_list_of_another_ca_does_not_count(root, new_root, peer_of, now) -> None:
    foreign = new_root("foreign").crl()
    assert refusal(DomainCrls(load_crls(foreign)), peer_of(root.leaf()), now) is Reason.CRL_MISSING
    check_signatures(load_crls(foreign), [root.certificate])


def test_every_ca_of_the_path_needs_its_own_list(root, peer_of, now) -> None:
    intermediate = root.below("intermediate")
    peer = peer_of(intermediate.leaf())
    assert refusal(DomainCrls(load_crls(root.crl())), peer, now) is Reason.CRL_MISSING
    assert refusal(DomainCrls(load_crls(intermediate.crl())), peer, now) is Reason.CRL_MISSING
    DomainCrls(load_crls(root.crl() + intermediate.crl())).check(peer, now)


def test_a_revoked_intermediate_takes_its_certificates_with_it(root, peer_of, now) -> None:
    intermediate = root.below("intermediate")
    crls = DomainCrls(load_crls(intermediate.crl() + root.crl(intermediate.serial)))
    assert refusal(crls, peer_of(intermediate.leaf()), now) is Reason.CERTIFICATE_REVOKED


def test_a_ca_that_may_not_sign_lists_signs_none(root, peer_of, now, granted) -> None:
    intermediate = root.below("no lists", usage=granted("key_cert_sign"))
    crls = DomainCrls(load_crls(root.crl() + intermediate.crl()))
    assert refusal(crls, peer_of(intermediate.leaf()), now) is Reason.CRL_MISSING


def test_of_several_lists_of_one_ca_the_newest_counts(root, peer_of, now) -> None:
    leaf = root.leaf()
    older = root.crl(this_update_s=-7200)
    newer = root.crl(leaf.serial, this_update_s=-60)
    for data in (older + newer, newer + older):
        reason = refusal(DomainCrls(load_crls(data)), peer_of(leaf), now)
        assert reason is Reason.CERTIFICATE_REVOKED


@pytest.mark.parametrize(
    "extension",
    [
        x509.DeltaCRLIndicator(1),
        x509.IssuingDistributionPoint(
            full_name=None,
            relative_name=None,
            only_contains_user_certs=True,
            only_contains_ca_certs=False,
            only_some_reasons=None,
            indirect_crl=False,
            only_contains_attribute_certs=False,
        ),
    ],
    ids=["delta", "partial"],
)
def test_partial_lists_are_refused(root, extension) -> None:
    with pytest.raises(BadCrl, match="critical extension"):
        load_crls(root.crl(extra=[(extension, True)]))


def test_ordinary_extensions_are_taken(root) -> None:
    aki = x509.AuthorityKeyIdentifier.from_issuer_public_key(root.key.public_key())
    assert load_crls(root.crl(extra=[(x509.CRLNumber(7), False), (aki, False)]))


def test_entries_of_other_issuers_are_refused(root) -> None:
    issuer = x509.CertificateIssuer([x509.DNSName("other")])
    with pytest.raises(BadCrl, match="indirect"):
        load_crls(root.crl(4711, entry_extra=[(issuer, True)]))


def test_no_flipped_bit_lets_a_revoked_certificate_pass(root, peer_of, now) -> None:
    leaf = root.leaf()
    peer = peer_of(leaf)
    der = x509.load_pem_x509_crl(root.crl(leaf.serial)).public_bytes(Encoding.DER)
    for at in range(len(der) * 8):
        flipped = bytearray(der)
        flipped[at // 8] ^= 1 << (at % 8)
        try:
            crls = DomainCrls(load_crls(bytes(flipped)))
        except BadCrl:
            continue
        with pytest.raises(CertificateRefused):
            crls.check(peer, now)


def test_garbage_is_refused(root) -> None:
    for data in (b"", b"text", root.pem, root.crl()[:-30], bytes(9 * 1024 * 1024)):
        with pytest.raises(BadCrl):
            load_crls(data)
