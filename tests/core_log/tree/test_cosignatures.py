"""Which cosignatures are taken: of known witnesses, or well-made ones up to a limit."""

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from core_log.tree.checkpoint_notes import SignedHead
from core_log.tree.cosignatures import (
    AHEAD_S_MAX,
    COSIGNERS_MAX,
    BadCosignature,
    cosigned_at,
    newest_cosigning,
    parse_offered,
    with_cosignatures,
)
from log_format.checkpoint_note import TreeHead, cosign, sign_tree_head
from log_format.note import Note, Signature, SignatureType, VerifierKey

NOW = 1_700_000_000
CORE = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
CORE_KEY = VerifierKey("sidegate/00", SignatureType.ED25519, CORE.public_key().public_bytes_raw())
HEAD = TreeHead("sidegate/00", 7, bytes(32))
HELD = SignedHead(sign_tree_head(HEAD, CORE_KEY, CORE.sign), HEAD)


def witness(number: int) -> tuple[VerifierKey, Ed25519PrivateKey]:
    private = Ed25519PrivateKey.from_private_bytes(number.to_bytes(32))
    public = private.public_key().public_bytes_raw()
    return VerifierKey(f"gk-{number}", SignatureType.COSIGNATURE_V1, public), private


def offered(number: int, time_s: int = NOW, note: Note = HELD.note) -> Note:
    key, private = witness(number)
    return cosign(note, key, private.sign, time_s)


def test_cosignatures_gather_and_the_cores_own_line_stays_first() -> None:
    held = with_cosignatures(HELD, offered(1), (), now_s=NOW)
    held = with_cosignatures(held, offered(2, NOW - 50), (), now_s=NOW)
    assert [each.name for each in held.note.signatures] == ["sidegate/00", "gk-1", "gk-2"]
    assert held.cosignatures == 2
    assert newest_cosigning(held) == NOW
    again = with_cosignatures(held, offered(1, NOW + 9), (), now_s=NOW)
    assert again.cosignatures == 2
    assert newest_cosigning(again) == NOW + 9
    assert newest_cosigning(HELD) is None


def test_only_known_witnesses_are_taken_where_they_are_named() -> None:
    known = [witness(1)[0], witness(3)[0]]
    both = offered(2, note=offered(1))
    held = with_cosignatures(HELD, both, known, now_s=NOW)
    assert [each.name for each in held.note.signatures] == ["sidegate/00", "gk-1"]
    with pytest.raises(BadCosignature, match="no cosignature of a witness that is known"):
        with_cosignatures(HELD, offered(2), known, now_s=NOW)
    forged = cosign(HELD.note, known[0], witness(2)[1].sign, NOW)
    with pytest.raises(BadCosignature, match=r"not made by the key gk-1"):
        with_cosignatures(HELD, forged, known, now_s=NOW)


@pytest.mark.parametrize(
    ("note", "why"),
    [
        (HELD.note, "no cosignature"),
        (offered(1, note=Note(HEAD.text.replace("7", "8"))), "another text"),
        (offered(1, NOW + AHEAD_S_MAX + 1), "of this time"),
        (HELD.note.with_signature(Signature("gk", bytes(4), bytes(64))), "no cosignature/v1"),
        (HELD.note.with_signature(Signature("gk", bytes(4), b"\xff" * 72)), "no cosignature/v1"),
    ],
)
def test_anything_else_is_refused(note: Note, why: str) -> None:
    with pytest.raises(BadCosignature, match=why):
        with_cosignatures(HELD, note, (), now_s=NOW)


def test_there_is_an_end_to_them() -> None:
    held = HELD
    for number in range(1, COSIGNERS_MAX + 1):
        held = with_cosignatures(held, offered(number), (), now_s=NOW)
    with pytest.raises(BadCosignature, match="more than 16"):
        with_cosignatures(held, offered(99), (), now_s=NOW)


def test_a_time_is_read_from_a_cosignature_alone() -> None:
    assert cosigned_at(offered(1).signatures[1]) == NOW
    assert cosigned_at(HELD.note.signatures[0]) is None


@pytest.mark.parametrize(
    "value", [None, [], {}, {"checkpoint": 1}, {"checkpoint": "x"}, {"checkpoint": "x", "b": 1}]
)
def test_a_body_that_is_no_note_is_refused(value: object) -> None:
    with pytest.raises(BadCosignature):
        parse_offered(value)
    assert parse_offered({"checkpoint": str(offered(1))}) == offered(1)
