"""Checkpoints and cosignatures are C2SP's: its examples verify, and nothing near them does."""

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from hypothesis import given
from hypothesis import strategies as st

from log_format.checkpoint_note import (
    BadSignature,
    TreeHead,
    Verified,
    cosign,
    cosignature,
    cosigned_message,
    log_origin,
    parse_tree_head,
    sign_tree_head,
    verified_signatures,
)
from log_format.errors import BadField
from log_format.note import Note, Signature, SignatureType, VerifierKey, parse_note

# The example of tlog-checkpoint and tlog-cosignature.
TEXT = "example.com/behind-the-sofa\n20852163\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n"
EXAMPLE = (
    TEXT + "\n\u2014 example.com/behind-the-sofa Az3grlgtzPICa5OS8npVmf1Myq/5IZniMp+ZJurmRDeO"
    "oRDe4URYN7u5/Zhcyv2q1gGzGku9nTo+zyWE+xeMcTOAYQ8=\n"
    "\u2014 witness.example.com/w1 jWbPPwAAAABkGFDLEZMHwSRaJNiIDoe9DYn/zXcrtPHeolMI5OWX"
    "EhZCB9dlrDJsX3b2oyin1nPZqhf5nNo0xUe+mbIUBkBIfZ+qnA==\n"
)
CORE = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
WITNESS = Ed25519PrivateKey.from_private_bytes(bytes(range(1, 33)))
CORE_KEY = VerifierKey("sidegate/00", SignatureType.ED25519, CORE.public_key().public_bytes_raw())
WITNESS_KEY = VerifierKey(
    "gatekeeper-1", SignatureType.COSIGNATURE_V1, WITNESS.public_key().public_bytes_raw()
)
HEAD = TreeHead("sidegate/00", 7, bytes(range(32)))


def verify(public: bytes, message: bytes, signature: bytes) -> bool:
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, message)
    except InvalidSignature:
        return False
    return True


def test_the_specifications_example_is_read_and_written_back() -> None:
    note = parse_note(EXAMPLE)
    head = parse_tree_head(note.text)
    assert head.origin == "example.com/behind-the-sofa"
    assert head.size == 20_852_163
    assert head.root.hex().startswith("0ac5186a")
    assert head.extensions == ()
    assert head.text == note.text == TEXT
    log, witness = note.signatures
    assert len(log.signature) == 64
    assert len(witness.signature) == 72
    assert int.from_bytes(witness.signature[:8]) == 1_679_315_147


def test_a_cosigned_message_is_the_specifications() -> None:
    assert cosigned_message(TEXT, 1_679_315_147) == (
        b"cosignature/v1\ntime 1679315147\n" + TEXT.encode()
    )
    for impossible in (-1, 2**63):
        with pytest.raises(BadField, match="time"):
            cosigned_message(TEXT, impossible)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a\n1\n",
        TEXT[:-1],
        TEXT + "\n",
        TEXT + "\nextension\n",
        TEXT.replace("20852163", "020852163"),
        TEXT.replace("20852163", "-1"),
        TEXT.replace("20852163", "+1"),
        TEXT.replace("20852163", "1_0"),
        TEXT.replace("20852163", "٣"),
        TEXT.replace("20852163", str(2**63)),
        TEXT.replace("20852163", "9" * 5_000),
        TEXT.replace("2I=", "2J="),
        TEXT.replace("CsUY", ""),
        TEXT.replace("example.com/behind-the-sofa", ""),
    ],
    ids=lambda text: repr(text)[:60],
)
def test_what_is_not_exactly_a_checkpoint_is_refused(text: str) -> None:
    with pytest.raises(BadField):
        parse_tree_head(text)


def test_a_checkpoint_is_verified_by_the_log_and_its_witnesses() -> None:
    note = cosign(
        sign_tree_head(HEAD, CORE_KEY, CORE.sign), WITNESS_KEY, WITNESS.sign, 1_700_000_000
    )
    assert verified_signatures(
        parse_note(str(note)), [WITNESS_KEY, CORE_KEY, CORE_KEY], verify
    ) == (
        Verified(WITNESS_KEY, 1_700_000_000),
        Verified(CORE_KEY, None),
    )
    stranger = VerifierKey("gatekeeper-2", SignatureType.COSIGNATURE_V1, WITNESS_KEY.public)
    assert verified_signatures(note, [stranger], verify) == ()
    plain = VerifierKey(WITNESS_KEY.name, SignatureType.ED25519, WITNESS_KEY.public)
    assert verified_signatures(note, [plain], verify) == ()


def test_a_later_cosignature_takes_the_place_of_an_earlier_one() -> None:
    note = sign_tree_head(HEAD, CORE_KEY, CORE.sign)
    for time_s in (1, 2):
        note = cosign(note, WITNESS_KEY, WITNESS.sign, time_s)
    assert verified_signatures(note, [WITNESS_KEY], verify) == (Verified(WITNESS_KEY, 2),)
    assert len(note.signatures) == 2


def test_a_signature_that_claims_a_known_key_and_is_not_by_it_refuses_the_note() -> None:
    note = cosign(sign_tree_head(HEAD, CORE_KEY, CORE.sign), WITNESS_KEY, WITNESS.sign, 9)
    moved = Note(TreeHead("sidegate/00", 8, bytes(32)).text, note.signatures)
    for key in (CORE_KEY, WITNESS_KEY):
        with pytest.raises(BadSignature, match=key.name):
            verified_signatures(moved, [key], verify)
    later = Signature(WITNESS_KEY.name, WITNESS_KEY.id, b"\x01" + note.signatures[1].signature[1:])
    short = Signature(WITNESS_KEY.name, WITNESS_KEY.id, note.signatures[1].signature[8:])
    never = Signature(WITNESS_KEY.name, WITNESS_KEY.id, b"\xff" * 72)
    # A plain signature over the text is no cosignature, and must not pass for one.
    plain = Signature(WITNESS_KEY.name, WITNESS_KEY.id, bytes(8) + WITNESS.sign(note.text.encode()))
    for forged in (later, short, never, plain):
        with pytest.raises(BadSignature):
            verified_signatures(note.with_signature(forged), [WITNESS_KEY], verify)
    twice = Note(note.text, (*note.signatures, later))
    with pytest.raises(BadSignature):
        verified_signatures(twice, [WITNESS_KEY], verify)


@given(
    st.text(st.characters(min_codepoint=32, exclude_categories=("Cs",)), min_size=1),
    st.integers(0, 2**63 - 1),
    st.binary(min_size=32, max_size=32),
    st.lists(st.text("abc", min_size=1), max_size=3),
)
def test_every_tree_head_is_read_back(
    origin: str, size: int, root: bytes, extensions: list[str]
) -> None:
    head = TreeHead(origin, size, root, tuple(extensions))
    assert parse_tree_head(head.text) == head


@given(st.integers(0, 2**63 - 1))
def test_every_time_is_read_back(time_s: int) -> None:
    line = cosignature(TEXT, WITNESS_KEY, WITNESS.sign, time_s)
    found = verified_signatures(Note(TEXT, (line,)), [WITNESS_KEY], verify)
    assert found == (Verified(WITNESS_KEY, time_s),)


def test_a_tree_head_that_no_checkpoint_can_state_is_refused() -> None:
    for origin, size, root, extensions in (
        ("", 1, bytes(32), ()),
        ("a\nb", 1, bytes(32), ()),
        ("a", -1, bytes(32), ()),
        ("a", 2**63, bytes(32), ()),
        ("a", 1, bytes(31), ()),
        ("a", 1, bytes(32), ("",)),
        ("a", 1, bytes(32), ("x\ny",)),
    ):
        with pytest.raises(BadField):
            TreeHead(origin, size, root, extensions)


def test_a_logs_origin_is_its_id() -> None:
    assert log_origin(bytes(range(16))) == "sidegate/000102030405060708090a0b0c0d0e0f"
