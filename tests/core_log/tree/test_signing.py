"""Checkpoints are signed under the log's name."""

from pathlib import Path

from core_log.tree.signing import LocalSigner, verify
from hosting.signing_key import load_signing_key
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


def test_a_signature_of_another_message_or_key_is_none(signing_key: Path) -> None:
    private = load_signing_key(signing_key)
    public = private.public_key().public_bytes_raw()
    assert verify(public, b"a", private.sign(b"a"))
    assert not verify(public, b"b", private.sign(b"a"))
    assert not verify(public, b"a", b"short")
    assert not verify(bytes(31), b"a", private.sign(b"a"))
