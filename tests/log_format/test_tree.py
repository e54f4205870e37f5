"""The tree is RFC 9162's: known roots, an independent implementation, and a literal one agree."""

import random
from collections.abc import Sequence
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pymerkle import InmemoryTree
from pymerkle import verify_consistency as pymerkle_verify_consistency
from pymerkle import verify_inclusion as pymerkle_verify_inclusion

from log_format.errors import BadField
from log_format.tree import (
    EMPTY_ROOT,
    SIZE_MAX,
    Frontier,
    consistency_proof,
    fold_peaks,
    inclusion_proof,
    node_hash,
    nodes_of,
    peaks_of,
    root_of,
    verify_consistency,
    verify_inclusion,
)

# The inputs and roots that Certificate Transparency's own implementations test with.
CT_INPUTS = (
    "",
    "00",
    "10",
    "2021",
    "3031",
    "40414243",
    "5051525354555657",
    "606162636465666768696a6b6c6d6e6f",
)
CT_ROOTS = (
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
)
LEAVES_MAX = 5_000


def leaf(data: bytes) -> bytes:
    return sha256(b"\x00" + data).digest()


def leaves(count: int) -> list[bytes]:
    return [leaf(str(number).encode()) for number in range(count)]


# RFC 9162, section 2.1, written down as it stands there.


def split(n: int) -> int:
    k = 1
    while k * 2 < n:
        k *= 2
    return k


def mth(d: Sequence[bytes]) -> bytes:
    if not d:
        return sha256(b"").digest()
    if len(d) == 1:
        return d[0]
    k = split(len(d))
    return sha256(b"\x01" + mth(d[:k]) + mth(d[k:])).digest()


def path(m: int, d: Sequence[bytes]) -> list[bytes]:
    if len(d) == 1:
        return []
    k = split(len(d))
    if m < k:
        return [*path(m, d[:k]), mth(d[k:])]
    return [*path(m - k, d[k:]), mth(d[:k])]


def subproof(m: int, d: Sequence[bytes], b: bool) -> list[bytes]:
    if m == len(d):
        return [] if b else [mth(d)]
    k = split(len(d))
    if m <= k:
        return [*subproof(m, d[:k], b), mth(d[k:])]
    return [*subproof(m - k, d[k:], False), mth(d[:k])]


def test_the_roots_are_those_of_certificate_transparency() -> None:
    hashes = [leaf(bytes.fromhex(data)) for data in CT_INPUTS]
    for size, root in enumerate(CT_ROOTS, 1):
        assert root_of(hashes[:size]).hex() == root
    assert root_of([]) == EMPTY_ROOT == sha256(b"").digest()


def test_small_trees_agree_with_the_rfc_in_every_leaf_and_every_pair_of_sizes() -> None:
    hashes = leaves(33)
    roots = [root_of(hashes[:size]) for size in range(34)]
    assert roots == [mth(hashes[:size]) for size in range(34)]
    for size in range(1, 34):
        node = nodes_of(hashes[:size])
        for number in range(size):
            proof = inclusion_proof(number, size, node)
            assert proof == path(number, hashes[:size])
            assert verify_inclusion(hashes[number], number, size, proof, roots[size])
        for old in range(1, size + 1):
            proof = consistency_proof(old, size, node)
            assert proof == subproof(old, hashes[:size], True)
            assert verify_consistency(old, size, roots[old], roots[size], proof)


@pytest.fixture(scope="module")
def oracle() -> InmemoryTree:
    tree = InmemoryTree(algorithm="sha256")
    tree.append_entries([str(number).encode() for number in range(LEAVES_MAX)])
    return tree


@pytest.fixture(scope="module")
def hashes() -> list[bytes]:
    return leaves(LEAVES_MAX)


def test_pymerkle_agrees_on_the_root_of_every_tree_up_to_5000_leaves(
    oracle: InmemoryTree, hashes: list[bytes]
) -> None:
    frontier = Frontier()
    assert frontier.root() == oracle.get_root(0)
    for size, each in enumerate(hashes, 1):
        frontier.append(each)
        assert frontier.root() == oracle.get_root(size)
        assert frontier.size == size


def test_pymerkle_agrees_on_proofs_of_random_trees_up_to_5000_leaves(
    oracle: InmemoryTree, hashes: list[bytes]
) -> None:
    chance = random.Random(7)
    node = nodes_of(hashes)
    for turn in range(200):
        size = chance.randint(1, LEAVES_MAX)
        number, old = chance.randrange(size), chance.randint(1, size)
        root, old_root = root_of(hashes[:size]), root_of(hashes[:old])
        theirs = oracle.prove_inclusion(number + 1, size)
        ours = inclusion_proof(number, size, node)
        assert ours == list(theirs.path[1:])
        assert verify_inclusion(hashes[number], number, size, ours, root)
        pymerkle_verify_inclusion(hashes[number], root, theirs)
        # pymerkle divides a path otherwise where the old tree is a whole subtree of the new one.
        pymerkle_verify_consistency(old_root, root, oracle.prove_consistency(old, size))
        proof = consistency_proof(old, size, node)
        if turn % 10 == 0:
            assert proof == subproof(old, hashes[:size], True)
        assert verify_consistency(old, size, old_root, root, proof)


@given(st.integers(1, 600), st.data())
def test_a_changed_inclusion_proof_proves_nothing(size: int, data: st.DataObject) -> None:
    hashes = leaves(size)
    number = data.draw(st.integers(0, size - 1))
    root = root_of(hashes)
    proof = inclusion_proof(number, size, nodes_of(hashes))
    other = data.draw(st.integers(0, size + 3).filter(lambda each: each != number))
    assert not verify_inclusion(hashes[number], other, size, proof, root)
    assert not verify_inclusion(leaf(b"another"), number, size, proof, root)
    assert not verify_inclusion(hashes[number], number, size, [*proof, root], root)
    assert not verify_inclusion(hashes[number], number, size, proof, leaf(b""))
    for at in range(len(proof)):
        assert not verify_inclusion(
            hashes[number], number, size, proof[:at] + proof[at + 1 :], root
        )
        changed = [*proof[:at], leaf(proof[at]), *proof[at + 1 :]]
        assert not verify_inclusion(hashes[number], number, size, changed, root)
        short = [*proof[:at], proof[at][:31], *proof[at + 1 :]]
        assert not verify_inclusion(hashes[number], number, size, short, root)


@given(st.integers(1, 600), st.data())
def test_a_changed_consistency_proof_proves_nothing(new: int, data: st.DataObject) -> None:
    hashes = leaves(new)
    old = data.draw(st.integers(1, new))
    old_root, new_root = root_of(hashes[:old]), root_of(hashes)
    proof = consistency_proof(old, new, nodes_of(hashes))
    forged = [leaf(b"rewritten"), *hashes[1:old]]
    assert not verify_consistency(old, new, root_of(forged), new_root, proof)
    assert not verify_consistency(old, new, old_root, leaf(b""), proof)
    assert not verify_consistency(old, new, old_root, new_root, [*proof, new_root])
    assert not verify_consistency(new + 1, new, old_root, new_root, proof)
    for at in range(len(proof)):
        changed = [*proof[:at], leaf(proof[at]), *proof[at + 1 :]]
        assert not verify_consistency(old, new, old_root, new_root, changed)
        missing = proof[:at] + proof[at + 1 :]
        assert not verify_consistency(old, new, old_root, new_root, missing)


def test_every_tree_extends_the_empty_one_and_itself_with_an_empty_proof() -> None:
    root = root_of(leaves(3))
    assert consistency_proof(0, 3, nodes_of(leaves(3))) == []
    assert verify_consistency(0, 3, EMPTY_ROOT, root, [])
    assert verify_consistency(0, 0, EMPTY_ROOT, EMPTY_ROOT, [])
    assert verify_consistency(3, 3, root, root, [])
    assert not verify_consistency(0, 3, root, root, [])
    assert not verify_consistency(0, 0, EMPTY_ROOT, root, [])
    assert not verify_consistency(0, 3, EMPTY_ROOT, root, [root])
    assert not verify_consistency(3, 3, root, root, [root])
    assert not verify_consistency(3, 3, root, leaf(b""), [])
    assert not verify_consistency(2, 3, root, root, [])


@given(st.integers(0, 600), st.integers(0, 600))
def test_a_frontier_goes_on_from_its_peaks(before: int, after: int) -> None:
    hashes = leaves(before + after)
    first = Frontier()
    first.extend(hashes[:before])
    assert list(first.peaks) == peaks_of(before, nodes_of(hashes))
    second = Frontier(first.size, first.peaks)
    second.extend(hashes[before:])
    assert second.root() == root_of(hashes) == fold_peaks(second.peaks)


def test_questions_that_no_tree_can_answer_are_refused() -> None:
    node = nodes_of(leaves(4))
    with pytest.raises(BadField, match="leaf 4 is not in a tree of 4"):
        inclusion_proof(4, 4, node)
    with pytest.raises(BadField, match="does not extend"):
        consistency_proof(5, 4, node)
    with pytest.raises(BadField, match="peaks"):
        Frontier(3, [EMPTY_ROOT])
    assert not verify_inclusion(EMPTY_ROOT, -1, 4, [], EMPTY_ROOT)
    assert not verify_inclusion(EMPTY_ROOT, 0, SIZE_MAX + 1, [], EMPTY_ROOT)
    assert not verify_inclusion(EMPTY_ROOT, 0, SIZE_MAX, [EMPTY_ROOT] * 500, EMPTY_ROOT)


def test_a_node_is_told_apart_from_a_leaf() -> None:
    left, right = leaves(2)
    assert node_hash(left, right) == sha256(b"\x01" + left + right).digest()
    assert node_hash(left, right) != leaf(left + right)
