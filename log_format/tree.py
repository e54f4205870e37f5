"""The Merkle tree over the log's leaves, exactly as RFC 9162, section 2.1, hashes it.

A tree is its leaf hashes in order (`log_format.leaf`). Proofs are made from the hashes of perfect
subtrees, which whoever keeps the tree looks up; they are verified from nothing but the hashes in
them. Pure: knows no file and no signature.
"""

from collections.abc import Callable, Iterable, Sequence
from hashlib import sha256
from typing import Final

from log_format.errors import BadField

HASH_BYTES: Final = 32
EMPTY_ROOT: Final = sha256(b"").digest()
"""The root of a tree without leaves: "The hash of an empty list is the hash of an empty string"."""
SIZE_MAX: Final = 2**63 - 1
"""Leaves that a tree may have: leaf numbers are kept as signed 64-bit integers elsewhere."""
PROOF_HASHES_MAX: Final = 64
"""Hashes that any proof of a tree up to SIZE_MAX can need: one a level, and one to begin with."""

_NODE_PREFIX: Final = b"\x01"

NodeReader = Callable[[int, int], bytes]
"""`node(level, index)`: the hash of the perfect subtree over the 2**level leaves that begin with
leaf `index * 2**level`. Level 0 are the leaves' own hashes."""


def node_hash(left: bytes, right: bytes) -> bytes:
    """SHA-256(0x01 ‖ left ‖ right)."""
    return sha256(_NODE_PREFIX + left + right).digest()


def perfect_root(hashes: Sequence[bytes]) -> bytes:
    """The root over a number of hashes that is a power of two."""
    row = hashes
    prefix, digest = _NODE_PREFIX, sha256
    while len(row) > 1:
        row = [
            digest(prefix + left + right).digest()
            for left, right in zip(row[::2], row[1::2], strict=True)
        ]
    return row[0]


class Frontier:
    """A tree that grows: the roots of its perfect subtrees, from the largest to the smallest.

    Invariant: one peak for each bit that is set in `size`. Not for use by two threads at once.
    """

    __slots__ = ("_peaks", "_size")

    def __init__(self, size: int = 0, peaks: Iterable[bytes] = ()) -> None:
        self._size = size
        self._peaks = list(peaks)
        if not 0 <= size <= SIZE_MAX or len(self._peaks) != size.bit_count():
            raise BadField("peaks", f"{len(self._peaks)} of them do not make a tree of {size}")

    @property
    def size(self) -> int:
        """How many leaves there are."""
        return self._size

    @property
    def peaks(self) -> tuple[bytes, ...]:
        """The roots of the perfect subtrees, the largest first."""
        return tuple(self._peaks)

    def append(self, leaf: bytes) -> None:
        """Add one leaf's hash."""
        self._add(leaf, self._size)
        self._size += 1

    def extend(self, leaves: Iterable[bytes]) -> None:
        """Add leaves' hashes in order."""
        size = self._size
        for leaf in leaves:
            self._add(leaf, size)
            size += 1
        self._size = size

    def root(self) -> bytes:
        """The tree's root."""
        return fold_peaks(self._peaks)

    def _add(self, node: bytes, size: int) -> None:
        peaks = self._peaks
        while size & 1:
            node = sha256(_NODE_PREFIX + peaks.pop() + node).digest()
            size >>= 1
        peaks.append(node)


def fold_peaks(peaks: Sequence[bytes]) -> bytes:
    """The root of a tree, from the roots of its perfect subtrees, the largest first."""
    if not peaks:
        return EMPTY_ROOT
    root = peaks[-1]
    for peak in reversed(peaks[:-1]):
        root = node_hash(peak, root)
    return root


def root_of(leaves: Iterable[bytes]) -> bytes:
    """The root over these leaf hashes."""
    frontier = Frontier()
    frontier.extend(leaves)
    return frontier.root()


def peaks_of(size: int, node: NodeReader) -> list[bytes]:
    """The roots of the perfect subtrees of a tree of `size` leaves, the largest first."""
    return _peaks_between(0, size, node)


def nodes_of(leaves: Sequence[bytes]) -> NodeReader:
    """Reads nodes of a tree whose leaf hashes are all at hand."""

    def node(level: int, index: int) -> bytes:
        return perfect_root(leaves[index << level : (index + 1) << level])

    return node


# Making proofs.


def inclusion_proof(leaf: int, size: int, node: NodeReader) -> list[bytes]:
    """The path from leaf number `leaf` to the root of the tree of `size` leaves.

    RFC 9162, section 2.1.3.1: the hashes from the leaf's own level upwards.
    """
    if not 0 <= leaf < size <= SIZE_MAX:
        raise BadField("leaf", f"leaf {leaf} is not in a tree of {size} leaves")
    begin, end = 0, size
    ranges = []
    while end - begin > 1:
        middle = begin + _split(end - begin)
        if leaf < middle:
            ranges.append((middle, end))
            end = middle
        else:
            ranges.append((begin, middle))
            begin = middle
    return [_range_root(first, last, node) for first, last in reversed(ranges)]


def consistency_proof(old: int, new: int, node: NodeReader) -> list[bytes]:
    """What shows that the tree of `new` leaves extends the one of `old` leaves.

    RFC 9162, section 2.1.4.1. Between equal sizes, and from the empty tree, the proof is empty.
    """
    if not 0 <= old <= new <= SIZE_MAX:
        raise BadField("from", f"a tree of {new} leaves does not extend one of {old}")
    if old in (0, new):
        return []
    begin, end = 0, new
    ranges = []
    whole = True  # `begin..old` is a complete tree that the old root itself stands for
    while end != old:
        middle = begin + _split(end - begin)
        if old <= middle:
            ranges.append((middle, end))
            end = middle
        else:
            ranges.append((begin, middle))
            begin = middle
            whole = False
    if not whole:
        ranges.append((begin, end))
    return [_range_root(first, last, node) for first, last in reversed(ranges)]


def _split(width: int) -> int:
    """The largest power of two below `width`: leaves under a root's left child."""
    return 1 << ((width - 1).bit_length() - 1)


def _range_root(begin: int, end: int, node: NodeReader) -> bytes:
    return fold_peaks(_peaks_between(begin, end, node))


def _peaks_between(begin: int, end: int, node: NodeReader) -> list[bytes]:
    """Perfect subtrees of a range whose beginning is aligned to its width, the largest first."""
    peaks = []
    while begin < end:
        level = (end - begin).bit_length() - 1
        peaks.append(node(level, begin >> level))
        begin += 1 << level
    return peaks


# Verifying proofs.


def verify_inclusion(
    leaf_hash: bytes, leaf: int, size: int, hashes: Sequence[bytes], root: bytes
) -> bool:
    """True if `hashes` prove that `leaf_hash` is leaf number `leaf` of the tree with this root.

    RFC 9162, section 2.1.3.2, step by step.
    """
    if not 0 <= leaf < size <= SIZE_MAX or not _are_hashes(leaf_hash, root, *hashes):
        return False
    fn, sn, r = leaf, size - 1, leaf_hash
    for p in hashes:
        if sn == 0:
            return False
        if fn & 1 or fn == sn:
            r = node_hash(p, r)
            while not fn & 1 and fn:
                fn >>= 1
                sn >>= 1
        else:
            r = node_hash(r, p)
        fn >>= 1
        sn >>= 1
    return sn == 0 and r == root


def verify_consistency(
    old: int, new: int, old_root: bytes, new_root: bytes, hashes: Sequence[bytes]
) -> bool:
    """True if `hashes` prove that the tree of `new` leaves begins with the one of `old` leaves.

    RFC 9162, section 2.1.4.2, step by step. The two cases that it leaves out: every tree extends
    the empty one, and a tree extends itself; both need no hashes and suffer none.
    """
    if not 0 <= old <= new <= SIZE_MAX or not _are_hashes(old_root, new_root, *hashes):
        return False
    if old == 0:
        return not hashes and old_root == EMPTY_ROOT and (new > 0 or new_root == EMPTY_ROOT)
    if old == new:
        return not hashes and old_root == new_root
    if not hashes:
        return False
    path = list(hashes)
    if old & (old - 1) == 0:
        path.insert(0, old_root)
    fn, sn = old - 1, new - 1
    while fn & 1:
        fn >>= 1
        sn >>= 1
    fr = sr = path[0]
    for c in path[1:]:
        if sn == 0:
            return False
        if fn & 1 or fn == sn:
            fr, sr = node_hash(c, fr), node_hash(c, sr)
            while not fn & 1 and fn:
                fn >>= 1
                sn >>= 1
        else:
            sr = node_hash(sr, c)
        fn >>= 1
        sn >>= 1
    return sn == 0 and fr == old_root and sr == new_root


def _are_hashes(*values: bytes) -> bool:
    return len(values) <= PROOF_HASHES_MAX + 2 and all(len(each) == HASH_BYTES for each in values)
