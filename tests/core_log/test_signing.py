"""A key that others may read, or that is no Ed25519 key, signs nothing."""

from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from core_log.signing import LocalSigner, SigningKeyError, is_shared, load_signing_key, verify
from log_format.checkpoint_note import TreeHead, verified_signatures
from log_format.tree import EMPTY_ROOT

HEAD = TreeHead("sidegate/00", 0, EMPTY_ROOT)


def test_a_note_is_signed_under_the_logs_name(signing_key: Path) -> None:
    signer = LocalSigner(load_signing_key(signing_key), "sidegate/00")
    note = signer.sign(HEAD, None, [])
    assert note.text == HEAD.text
    assert [each.key for each in verified_signatures(note, [signer.key()], verify)] == [
        signer.key()
    ]


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o644])
def test_a_key_that_others_may_read_is_refused(signing_key: Path, mode: int) -> None:
    signing_key.chmod(mode)
    with pytest.raises(SigningKeyError, match=f"mode {mode:04o}.*chmod 600"):
        load_signing_key(signing_key)


def test_a_secret_that_root_mounted_may_be_read_by_the_services_group_and_nobody_else() -> None:
    assert not is_shared(0o600, owner=10001, user=10001)
    assert not is_shared(0o400, owner=0, user=0)
    assert not is_shared(0o440, owner=0, user=10001)
    assert is_shared(0o440, owner=0, user=0)
    assert is_shared(0o440, owner=10001, user=10001)
    assert is_shared(0o444, owner=0, user=10001)
    assert is_shared(0o460, owner=0, user=10001)


def test_what_is_no_key_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "key.pem"
    with pytest.raises(SigningKeyError, match=r"key\.pem can't be read.*openssl genpkey"):
        load_signing_key(path)
    path.write_bytes(b"rubbish")
    path.chmod(0o600)
    with pytest.raises(SigningKeyError, match="not an unencrypted private key"):
        load_signing_key(path)
    path.write_bytes(
        ec.generate_private_key(ec.SECP256R1()).private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    with pytest.raises(SigningKeyError, match="holds no Ed25519 key"):
        load_signing_key(path)


def test_a_signature_of_another_message_or_key_is_none(signing_key: Path) -> None:
    private = load_signing_key(signing_key)
    public = private.public_key().public_bytes_raw()
    assert verify(public, b"a", private.sign(b"a"))
    assert not verify(public, b"b", private.sign(b"a"))
    assert not verify(public, b"a", b"short")
    assert not verify(bytes(31), b"a", private.sign(b"a"))
