"""Public keys: made from private ones, read from files, refused where they are something else."""

from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from log_format.layout import SegmentHead, encode_segment_head, segment_name
from log_format.note import SignatureType, VerifierKey
from sidegate.public_keys import KeyProblem, core_key, gatekeeper_key, read_keys

CORE = SignatureType.ED25519
WITNESS = SignatureType.COSIGNATURE_V1


def write_key(file: Path, key: Ed25519PrivateKey | ec.EllipticCurvePrivateKey) -> Path:
    file.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return file


@pytest.fixture
def key() -> Ed25519PrivateKey:
    return Ed25519PrivateKey.generate()


@pytest.fixture
def private(tmp_path: Path, key: Ed25519PrivateKey) -> Path:
    return write_key(tmp_path / "key.pem", key)


def test_a_gatekeepers_key_has_its_id_as_name(private: Path, key: Ed25519PrivateKey) -> None:
    made = gatekeeper_key(private, "spiffe://example/gatekeeper")
    public = key.public_key().public_bytes_raw()
    assert made == VerifierKey("spiffe://example/gatekeeper", WITNESS, public)
    with pytest.raises(KeyProblem, match="space or a plus"):
        gatekeeper_key(private, "a name")


def test_a_cores_key_is_named_by_its_log(private: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    with pytest.raises(KeyProblem, match="data folder"):
        core_key(private, log)
    log.mkdir()
    with pytest.raises(KeyProblem, match="start the core once"):
        core_key(private, log)
    for leaf in (900, 0):
        head = SegmentHead(bytes([leaf % 256]) * 16, leaf, 0, 1)
        (log / segment_name(leaf)).write_bytes(encode_segment_head(head))
    assert core_key(private, log).name == "sidegate/" + "00" * 16
    (log / segment_name(0)).write_bytes(b"torn")
    with pytest.raises(KeyProblem, match="incomplete"):
        core_key(private, log)


def test_what_is_no_ed25519_key_is_refused(tmp_path: Path) -> None:
    for file, said in (
        (tmp_path / "nowhere.pem", "No such file"),
        (write_key(tmp_path / "ec.pem", ec.generate_private_key(ec.SECP256R1())), "no Ed25519"),
    ):
        with pytest.raises(KeyProblem, match=said):
            gatekeeper_key(file, "g")
    (tmp_path / "text.pem").write_text("hello")
    with pytest.raises(KeyProblem, match="not an unencrypted private key"):
        gatekeeper_key(tmp_path / "text.pem", "g")


def test_a_file_may_hold_several_keys_and_comments(tmp_path: Path) -> None:
    keys = [VerifierKey(f"g{number}", WITNESS, bytes([number]) * 32) for number in range(2)]
    file = tmp_path / "witnesses.pub"
    file.write_text(f"# ours\n{keys[0]}\n\n{keys[1]}\n")
    assert read_keys(file, WITNESS) == keys
    with pytest.raises(KeyProblem, match="holds a witness's key, not a core's"):
        read_keys(file, CORE)


@pytest.mark.parametrize(
    ("content", "said"),
    [(None, "No such file"), (b"", "no key"), (b"\xff", "not text"), (b"g+00+AA==\n", "key")],
)
def test_a_file_without_a_key_is_refused(tmp_path: Path, content: bytes | None, said: str) -> None:
    file = tmp_path / "core.pub"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(KeyProblem, match=said):
        read_keys(file, CORE)
