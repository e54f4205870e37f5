"""The core's public key, read from its file or refused."""

from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from gatekeeper.witness.ed25519 import load_core_keys, verify
from hosting.lifecycle import StartError
from log_format.note import SignatureType, VerifierKey


def test_a_signature_is_verified_and_nonsense_is_none() -> None:
    key = Ed25519PrivateKey.generate()
    public = key.public_key().public_bytes_raw()
    assert verify(public, b"text", key.sign(b"text"))
    assert not verify(public, b"other", key.sign(b"text"))
    assert not verify(b"short", b"text", key.sign(b"text"))


def test_the_file_holds_one_line_and_two_while_the_key_is_renewed(tmp_path: Path) -> None:
    file = tmp_path / "core.pub"
    key = VerifierKey("sidegate/aa", SignatureType.ED25519, bytes(32))
    file.write_text(f"{key}\n")
    assert load_core_keys(file) == (key,)
    new = VerifierKey("sidegate/aa", SignatureType.ED25519, bytes(31) + b"1")
    file.write_text(f"{key}\n{new}\n")
    assert load_core_keys(file) == (key, new)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "sidegate public-key core"),
        (b"\xff", "is not text"),
        (b"sidegate/aa\n", "core.public_key"),
        (b"\n", "of one log"),
        (
            b"\n".join(
                str(VerifierKey(name, SignatureType.ED25519, bytes(32))).encode()
                for name in ("sidegate/aa", "sidegate/bb")
            ),
            "of one log",
        ),
        (str(VerifierKey("g", SignatureType.COSIGNATURE_V1, bytes(32))).encode(), "a witness's"),
    ],
)
def test_what_is_no_key_of_a_core_is_refused_with_the_next_step(
    tmp_path: Path, content: bytes | None, said: str
) -> None:
    file = tmp_path / "core.pub"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(StartError, match=said):
        load_core_keys(file)
