"""The witness's table, over everything that it can see."""

from itertools import product

import pytest

from gatekeeper.witness.witness_verdict import (
    CONTRADICTIONS,
    COSIGNED,
    LATCHED,
    TABLE,
    Facts,
    Memory,
    Proof,
    Size,
    Verdict,
    conclude,
    facts_of,
)
from log_format.checkpoint_note import TreeHead
from log_format.tree import EMPTY_ROOT, consistency_proof, nodes_of, root_of

ALL = [
    Facts(*each)
    for each in product(Memory, (True, False), (True, False), Size, (True, False), Proof)
]
LEAVES = [bytes([number]) * 32 for number in range(9)]
ORIGIN = "sidegate/aa"


def head(size: int, origin: str = ORIGIN) -> TreeHead:
    return TreeHead(origin, size, root_of(LEAVES[:size]))


def test_every_input_has_a_verdict_and_every_row_is_reached() -> None:
    assert {conclude(facts) for facts in ALL} == {row[-1] for row in TABLE} == set(Verdict)


@pytest.mark.parametrize("facts", ALL, ids=str)
def test_nothing_is_cosigned_but_a_signed_tree_of_the_known_log_that_extends_the_last(
    facts: Facts,
) -> None:
    extends = (
        facts.memory is Memory.NONE
        or (facts.memory is Memory.KEPT and facts.size is Size.EQUAL and facts.same_root)
        or (
            facts.memory is Memory.KEPT and facts.size is Size.LARGER and facts.proof is Proof.HOLDS
        )
    )
    sound = facts.known_origin and facts.signed and extends
    assert (conclude(facts) in COSIGNED) == sound


@pytest.mark.parametrize("facts", ALL, ids=str)
def test_a_contradiction_is_what_only_a_dishonest_core_can_show(facts: Facts) -> None:
    strange = not facts.known_origin or not facts.signed
    kept = facts.memory is Memory.KEPT
    shrunk = kept and facts.size is Size.SMALLER
    split = kept and facts.size is Size.EQUAL and not facts.same_root
    forked = kept and facts.size is Size.LARGER and facts.proof is Proof.FAILS
    assert (conclude(facts) in CONTRADICTIONS) == (strange or shrunk or split or forked)


def test_verdicts_are_sorted_into_what_follows_from_them() -> None:
    assert LATCHED < CONTRADICTIONS
    assert not COSIGNED & CONTRADICTIONS
    assert set(Verdict) - COSIGNED - CONTRADICTIONS == {Verdict.PROVE, Verdict.MEMORY_LOST}
    assert len({verdict.text for verdict in Verdict}) == len(Verdict)


def look(
    shown: TreeHead,
    remembered: TreeHead | None,
    hashes: list[bytes] | None = None,
    *,
    signed: bool = True,
    lost: bool = False,
) -> Verdict:
    facts = facts_of(
        shown, origin=ORIGIN, signed=signed, remembered=remembered, lost=lost, hashes=hashes
    )
    return conclude(facts)


def test_trees_are_compared_as_they_are() -> None:
    other = TreeHead(ORIGIN, 5, bytes(32))
    assert look(head(5), None) is Verdict.FIRST
    assert look(head(5), None, lost=True) is Verdict.MEMORY_LOST
    assert look(head(5), head(5)) is Verdict.SAME
    assert look(other, head(5)) is Verdict.SPLIT
    assert look(head(4), head(5)) is Verdict.SHRUNK
    assert look(head(7), head(5)) is Verdict.PROVE
    assert look(head(7), head(5), signed=False) is Verdict.WRONG_KEY
    assert look(head(7, "sidegate/bb"), head(5)) is Verdict.WRONG_ORIGIN
    assert look(head(7), head(5, "sidegate/bb")) is Verdict.WRONG_ORIGIN


def test_a_larger_tree_needs_a_proof_that_holds() -> None:
    hashes = consistency_proof(5, 7, nodes_of(LEAVES))
    assert look(head(7), head(5), hashes) is Verdict.EXTENDS
    assert look(head(7), head(5), hashes[:-1]) is Verdict.FORKED
    assert look(head(7), TreeHead(ORIGIN, 5, bytes(32)), hashes) is Verdict.FORKED
    assert look(head(7), TreeHead(ORIGIN, 0, EMPTY_ROOT), []) is Verdict.EXTENDS
