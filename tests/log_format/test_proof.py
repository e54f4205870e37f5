"""The document that proves a message: what it accepts, and that it accepts nothing else."""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from log_format.checkpoint_note import TreeHead, cosign, sign_tree_head
from log_format.envelope import add_stamp, decode_envelope, seal_provenance, without_body
from log_format.frame import encode_frame
from log_format.leaf import leaf_hash
from log_format.note import SignatureType, VerifierKey
from log_format.parts import Producer, Provenance, Stamp
from log_format.proof import (
    NotProven,
    Proof,
    appended_text,
    check_proof,
    make_proof,
    read_proof,
    sender_is_proven,
)
from log_format.tree import inclusion_proof, nodes_of, root_of

ORIGIN = "sidegate/00112233445566778899aabbccddeeff"


def verify(public: bytes, message: bytes, signature: bytes) -> bool:
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, message)
    except InvalidSignature:
        return False
    return True


@dataclass(frozen=True)
class World:
    """One envelope in a log of 20 leaves, with everybody's keys."""

    proof: Proof
    core: VerifierKey
    gatekeeper: VerifierKey
    other: VerifierKey
    checkpoint: Callable[..., str]

    def text(self, **changes: Any) -> str:
        return json.dumps(self.proof.as_json() | changes)

    def check(self, text: str, *witnesses: VerifierKey, **options: bool) -> Any:
        return check_proof(
            read_proof(text), self.core, witnesses or (self.gatekeeper,), verify, **options
        )


def key(name: str, kind: SignatureType) -> tuple[Ed25519PrivateKey, VerifierKey]:
    private = Ed25519PrivateKey.generate()
    return private, VerifierKey(name, kind, private.public_key().public_bytes_raw())


@pytest.fixture
def world(producer: Producer, provenance: Provenance, stamp: Stamp, body: bytes) -> World:
    core_private, core = key(ORIGIN, SignatureType.ED25519)
    gate_private, gatekeeper = key(provenance.gatekeeper_id, SignatureType.COSIGNATURE_V1)
    other_private, other = key("gatekeeper-2", SignatureType.COSIGNATURE_V1)
    sent = decode_envelope(encode_frame(producer, body))
    envelope = add_stamp(seal_provenance(sent.raw, provenance, gate_private.sign), stamp)
    leaves = [bytes([number]) * 32 for number in range(20)]
    leaves[stamp.leaf] = leaf_hash(envelope)

    def checkpoint(*, witnesses: int = 1, origin: str = ORIGIN, signed: bool = True) -> str:
        head = TreeHead(origin, 20, root_of(leaves))
        note = sign_tree_head(head, core, core_private.sign)
        if not signed:
            note = replace(note, signatures=())
        for private, public in ((gate_private, gatekeeper), (other_private, other))[:witnesses]:
            note = cosign(note, public, private.sign, 1_700_000_100)
        return str(note)

    hashes = inclusion_proof(stamp.leaf, 20, nodes_of(leaves))
    proof = make_proof(envelope, 91, size=20, hashes=hashes, checkpoint=checkpoint(), body=body)
    return World(proof, core, gatekeeper, other, checkpoint)


def test_a_sound_document_proves_sender_place_time_and_content(world: World, body: bytes) -> None:
    proven = world.check(world.text())
    assert proven.provenance.principal == "billing"
    assert (proven.envelope.producer.topic, proven.offset) == ("orders.eu", 91)
    assert proven.head.size == 20
    assert [(each.key, each.time_s) for each in proven.cosigned] == [
        (world.gatekeeper, 1_700_000_100)
    ]
    assert proven.body == body


def test_white_space_and_the_order_of_members_carry_nothing(world: World) -> None:
    document = dict(reversed(world.proof.as_json().items()))
    assert world.check(json.dumps(document, indent=3, ensure_ascii=False))


def test_a_body_may_be_left_out_and_a_removed_one_changes_nothing(world: World) -> None:
    assert world.check(world.text(body=None)).body is None
    gone = without_body(world.proof.envelope).hex()
    assert world.check(world.text(body=None, envelope=gone))


def test_no_character_that_carries_information_can_be_changed(world: World) -> None:
    text = world.text()
    accepted = []
    for at in range(0, len(text), 3):
        if text[at].isspace():
            continue
        for other in "01":
            changed = text[:at] + other + text[at + 1 :]
            if changed == text:
                continue
            try:
                world.check(changed)
            except NotProven:
                continue
            accepted.append((at, text[at], other))
            break
    assert accepted == []


@pytest.mark.parametrize(
    "changes",
    [
        {"format": "sidegate-proof/2"},
        {"topic": "orders.us"},
        {"partition": 4},
        {"partition": True},
        {"partition": -1},
        {"offset": 89},
        {"offset": 93},
        {"offset": "91"},
        {"principal": "shipping"},
        {"principal": None},
        {"gatekeeper": "gatekeeper-2"},
        {"appended": "2023-11-14T22:13:20.002001Z"},
        {"leaf": 11},
        {"size": 21},
        {"size": 2**70},
        {"envelope": ""},
        {"envelope": "zz"},
        {"hashes": []},
        {"hashes": {}},
        {"hashes": ["00"]},
        {"hashes": [7]},
        {"hashes": ["00" * 32] * 65},
        {"checkpoint": "sidegate\n"},
        {"checkpoint": 7},
        {"body": ""},
        {"body": "AAAA"},
        {"body": "AAB="},
        {"more": 1},
    ],
    ids=str,
)
def test_every_member_is_held_against_the_envelope(world: World, changes: dict[str, Any]) -> None:
    with pytest.raises(NotProven, match=next(iter(changes))):
        world.check(world.text(**changes))


def test_upper_case_hex_and_bytes_behind_the_envelope_are_refused(world: World) -> None:
    spelt = world.proof.envelope.hex()
    for envelope in (spelt.upper(), spelt + "00" * 8, spelt[:-2]):
        with pytest.raises(NotProven, match="envelope"):
            world.check(world.text(envelope=envelope))


def test_a_number_with_a_point_is_refused(world: World) -> None:
    with pytest.raises(NotProven, match="whole number"):
        world.check(world.text(offset=91.0))


@pytest.mark.parametrize("member", Proof.__slots__)
def test_no_member_may_be_missing_or_stand_twice(world: World, member: str) -> None:
    document = world.proof.as_json()
    twice = f'{{"{member}":{json.dumps(document[member])},' + json.dumps(document)[1:]
    del document[member]
    for text in (json.dumps(document), twice):
        with pytest.raises(NotProven):
            read_proof(text)


@pytest.mark.parametrize("text", ["", "[]", "null", "{", "[" * 100_000, '{"a":1e3}', '{"a":NaN}'])
def test_what_is_no_document_is_refused(text: str) -> None:
    with pytest.raises(NotProven):
        read_proof(text)


def test_a_checkpoint_needs_the_signature_of_the_core(world: World) -> None:
    unsigned = world.checkpoint(signed=False)
    with pytest.raises(NotProven, match="no signature of"):
        world.check(world.text(checkpoint=unsigned))
    other_log = world.checkpoint(origin="sidegate/ff")
    with pytest.raises(NotProven, match="is of the log"):
        world.check(world.text(checkpoint=other_log))


def test_a_checkpoint_needs_a_witness_among_those_given(world: World) -> None:
    alone = world.checkpoint(witnesses=0)
    with pytest.raises(NotProven, match="none of the given witnesses"):
        world.check(world.text(checkpoint=alone))
    without_keys = check_proof(read_proof(world.text(checkpoint=alone)), world.core, (), verify)
    assert without_keys.cosigned == ()


def test_a_line_of_a_key_that_was_not_given_is_refused_unless_it_is_to_be_ignored(
    world: World,
) -> None:
    text = world.text(checkpoint=world.checkpoint(witnesses=2))
    with pytest.raises(NotProven, match="not given"):
        world.check(text)
    assert len(world.check(text, ignore_unknown=True).cosigned) == 1
    assert len(world.check(text, world.gatekeeper, world.other).cosigned) == 2


def test_one_key_signs_once(world: World) -> None:
    note = world.checkpoint()
    last = note.splitlines(keepends=True)[-1]
    with pytest.raises(NotProven, match="twice"):
        world.check(world.text(checkpoint=note + last))


def test_the_sender_needs_the_signature_of_the_gatekeeper_that_is_named(world: World) -> None:
    text = world.text(checkpoint=world.checkpoint(witnesses=2))
    with pytest.raises(NotProven, match="vouches for the sender"):
        world.check(text, world.other, ignore_unknown=True)
    envelope = decode_envelope(world.proof.envelope)
    assert envelope.provenance is not None
    plain = replace(world.gatekeeper, type=SignatureType.ED25519)
    assert not sender_is_proven(envelope, envelope.provenance, [plain], verify)


def test_an_envelope_without_sender_or_place_makes_no_proof(sent_frame: bytes) -> None:
    raw = decode_envelope(sent_frame).raw
    with pytest.raises(ValueError, match="no provenance or no stamp"):
        make_proof(raw, 0, size=1, hashes=[], checkpoint="", body=None)


def test_times_are_written_in_one_way() -> None:
    assert appended_text(0) == "1970-01-01T00:00:00.000000Z"
    assert appended_text(1_700_000_000_002_000) == "2023-11-14T22:13:20.002000Z"
    assert appended_text(2**62) == str(2**62)
