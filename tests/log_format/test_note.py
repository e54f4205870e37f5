"""Notes are C2SP signed-note's: the reference implementation's vectors, and strict reading."""

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from hypothesis import given
from hypothesis import strategies as st

from log_format.errors import BadField
from log_format.note import (
    Note,
    Signature,
    SignatureType,
    VerifierKey,
    decode_base64,
    parse_note,
    parse_vkey,
)

# The key pair, text and signature that the reference implementation tests with.
PETER = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW"
PETER_SEED = decode_base64("AYEKFALVFGyNhPJEMzD1QIDr+Y7hfZx09iUvxdXHKDFz", "seed")[1:]
TEXT = (
    "If you think cryptography is the answer to your problem,\n"
    "then you don't know what your problem is.\n"
)
PETER_LINE = (
    "\u2014 PeterNeumann x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZ"
    "SNXgKvqfqdngotpRZb6KE6RyyBwJnAM=\n"
)
ENOCH_LINE = (
    "\u2014 EnochRoot rwz+eBzmZa0SO3NbfRGzPCpDckykFXSdeX+MNtCOXm2/5n2tiOHp+vAF1aGrQ5ov"
    "TG01oOTGwnWLox33WWd1RvMc+QQ=\n"
)
# The example of the specification itself.
QUASIMODO = (
    "Ognuno sta solo sul cuor della terra\ntrafitto da un raggio di sole:\n\n"
    "ed è subito sera.\n\n"
    "\u2014 quasimodo.example/salvatore NnugSzTjtVAewIS+Z/iJhUPeFDkO/5QQ2i5ddnGITLlC"
    "+EhfLW9oJKONrMouFSQU0xMcXxj99ihAQwaqP3ZekRwNtIc=\n"
)


def test_a_vkey_is_read_and_written_back() -> None:
    key = parse_vkey(PETER)
    assert key.name == "PeterNeumann"
    assert key.type is SignatureType.ED25519
    assert key.id.hex() == "c74f20a3"
    assert str(key) == PETER
    public = Ed25519PrivateKey.from_private_bytes(PETER_SEED).public_key().public_bytes_raw()
    assert key.public == public


def test_no_part_and_no_change_of_a_vkey_is_a_vkey() -> None:
    for begin in range(len(PETER) + 1):
        for end in range(begin, len(PETER) + 1):
            if (begin, end) != (0, len(PETER)):
                with pytest.raises(BadField):
                    parse_vkey(PETER[begin:end])
    for at, character in enumerate(PETER):
        with pytest.raises(BadField):
            parse_vkey(PETER[:at] + chr(ord(character) + 1) + PETER[at + 1 :])
    for broken in (
        "PeterNeumann+cc469956+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TWBADKEY==",
        "PeterNeumann+173116ae+ZRpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW",
        PETER + "\n",
        PETER.replace("c74f20a3", "C74F20A3"),
    ):
        with pytest.raises(BadField):
            parse_vkey(broken)


def test_a_note_that_the_reference_signed_is_read_and_written_back() -> None:
    note = parse_note(f"{TEXT}\n{PETER_LINE}{ENOCH_LINE}".encode())
    assert note.text == TEXT
    assert [each.name for each in note.signatures] == ["PeterNeumann", "EnochRoot"]
    assert str(note) == f"{TEXT}\n{PETER_LINE}{ENOCH_LINE}"
    key = parse_vkey(PETER)
    first, second = note.signatures
    assert first.is_by(key)
    assert not second.is_by(key)
    Ed25519PublicKey.from_public_bytes(key.public).verify(first.signature, TEXT.encode())


def test_signing_makes_the_references_note_byte_for_byte() -> None:
    key = parse_vkey(PETER)
    signed = Ed25519PrivateKey.from_private_bytes(PETER_SEED).sign(TEXT.encode())
    line = Signature(key.name, key.id, signed)
    assert str(Note(TEXT, (line,))) == f"{TEXT}\n{PETER_LINE}"
    old = Signature(key.name, key.id, b"old")
    other = Signature("EnochRoot", key.id, b"other")
    assert Note(TEXT, (old, other)).with_signature(line).signatures == (other, line)


def test_the_text_may_hold_empty_lines() -> None:
    note = parse_note(QUASIMODO)
    assert note.text.endswith(":\n\ned è subito sera.\n")
    assert note.signatures[0].key_id.hex() == "367ba04b"
    assert str(note) == QUASIMODO


@pytest.mark.parametrize(
    "broken",
    [
        TEXT,
        TEXT + "\n",
        f"{TEXT}\n{PETER_LINE[:-1]}",
        f"\x01{TEXT}\n{PETER_LINE}",
        f"{TEXT}\r\n\n{PETER_LINE}",
        b"\xff" + f"{TEXT}\n{PETER_LINE}".encode(),
        f"\ud800{TEXT}\n{PETER_LINE}",
        f"{TEXT}\n{PETER_LINE.replace('PeterNeumann', 'Bad Name')}",
        f"{TEXT}\n{PETER_LINE.replace('PeterNeumann', 'Bad+Name')}",
        TEXT + "\n" + PETER_LINE.replace("PeterNeumann", "Bad\u00a0Name"),
        f"{TEXT}\n{PETER_LINE.replace('PeterNeumann', '')}",
        f"{TEXT}\n{PETER_LINE}Unexpected line.\n",
        f"{TEXT}\n\u2014 PeterNeumann\n",
        f"{TEXT}\n\u2014 PeterNeumann x08gow==\n",
        f"{TEXT}\n\u2014 PeterNeumann x08g.yB=\n",
        f"{TEXT}\n- PeterNeumann {PETER_LINE.rsplit(maxsplit=1)[-1]}\n",
        f"{TEXT}\n{PETER_LINE * 101}",
        f"{'x' * 70_000}\n\n{PETER_LINE}",
    ],
    ids=repr,
)
def test_what_is_not_exactly_a_note_is_refused(broken: str | bytes) -> None:
    with pytest.raises(BadField):
        parse_note(broken)


def test_as_many_signatures_as_the_limit_says_are_read() -> None:
    assert len(parse_note(f"{TEXT}\n{PETER_LINE * 100}").signatures) == 100


NAMES = st.text(st.characters(min_codepoint=33, exclude_categories=("Cs",)), min_size=1).filter(
    lambda name: not any(each.isspace() or each == "+" for each in name)
)
LINES = st.text(st.characters(min_codepoint=32, exclude_categories=("Cs",)), min_size=1)


@given(
    st.lists(LINES, min_size=1).map(lambda lines: "".join(f"{line}\n" for line in lines)),
    st.lists(st.builds(Signature, NAMES, st.binary(min_size=4, max_size=4), st.binary(min_size=1)),
             min_size=1, max_size=5),
)  # fmt: skip
def test_every_note_that_is_written_is_read_back(text: str, signatures: list[Signature]) -> None:
    note = Note(text, tuple(signatures))
    assert parse_note(str(note)) == note
    assert parse_note(str(note).encode()) == note


@given(NAMES.filter(lambda name: len(name.encode()) <= 512), st.binary(min_size=32, max_size=32))
def test_every_vkey_that_is_written_is_read_back(name: str, public: bytes) -> None:
    for kind in SignatureType:
        key = VerifierKey(name, kind, public)
        assert parse_vkey(str(key)) == key


def test_a_key_of_another_length_or_a_name_without_end_is_refused() -> None:
    with pytest.raises(BadField, match="31 bytes"):
        VerifierKey("core", SignatureType.ED25519, bytes(31))
    with pytest.raises(BadField, match="longer than 512"):
        VerifierKey("n" * 513, SignatureType.ED25519, bytes(32))
