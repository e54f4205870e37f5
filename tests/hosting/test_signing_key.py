"""A key that others may read, or that is no Ed25519 key, signs nothing."""

from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)

from hosting.signing_key import SigningKeyError, is_shared, load_signing_key


def written(path: Path, data: bytes, mode: int = 0o600) -> Path:
    path.write_bytes(data)
    path.chmod(mode)
    return path


def test_a_signing_key_is_read_from_pem(tmp_path: Path) -> None:
    key = Ed25519PrivateKey.generate()
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    loaded = load_signing_key(written(tmp_path / "k.pem", pem))
    assert loaded.public_key() == key.public_key()


def test_a_signing_key_that_can_not_be_used_says_what_to_do(tmp_path: Path) -> None:
    key = Ed25519PrivateKey.generate()
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    with pytest.raises(SigningKeyError, match="openssl genpkey"):
        load_signing_key(tmp_path / "none.pem")
    with pytest.raises(SigningKeyError, match="chmod 600"):
        load_signing_key(written(tmp_path / "open.pem", pem, 0o644))
    with pytest.raises(SigningKeyError, match="not an unencrypted private key"):
        load_signing_key(written(tmp_path / "bad.pem", b"nothing"))
    sealed = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"x"))
    with pytest.raises(SigningKeyError, match="not an unencrypted private key"):
        load_signing_key(written(tmp_path / "sealed.pem", sealed))
    other = ec.generate_private_key(ec.SECP256R1()).private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
    )
    with pytest.raises(SigningKeyError, match="Ed25519 only"):
        load_signing_key(written(tmp_path / "ec.pem", other))


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o644])
def test_a_key_that_others_may_read_is_refused(tmp_path: Path, mode: int) -> None:
    key = Ed25519PrivateKey.generate()
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    with pytest.raises(SigningKeyError, match=f"mode {mode:04o}.*chmod 600"):
        load_signing_key(written(tmp_path / "k.pem", pem, mode))


def test_a_secret_that_root_mounted_may_be_read_by_the_services_group_and_nobody_else() -> None:
    assert not is_shared(0o600, owner=10001, user=10001)
    assert not is_shared(0o400, owner=0, user=0)
    assert not is_shared(0o440, owner=0, user=10001)
    assert is_shared(0o440, owner=0, user=0)
    assert is_shared(0o440, owner=10001, user=10001)
    assert is_shared(0o444, owner=0, user=10001)
    assert is_shared(0o460, owner=0, user=10001)
