"""The tree's roots, recomputed in Spark, against the format's own."""

from typing import Any

import pytest

from log_format.tree import root_of
from spark.checks import tree
from spark.checks.tree import Stated, block_peaks, roots_at, tree_findings


def peaks(frame: Any, sizes: list[int]) -> list[tuple[int, int, list[bytes]]]:
    return [tuple(row) for row in block_peaks(frame, sizes).collect()]


@pytest.fixture
def leaves(spark: Any) -> Any:
    """A frame of leaves by number, without a log behind it."""

    def make(hashes: dict[int, bytes]) -> Any:
        return spark.createDataFrame(sorted(hashes.items()), "leaf bigint, leaf_hash binary")

    return make


def digest(number: int) -> bytes:
    return number.to_bytes(32, "big")


def test_roots_at_any_size_are_those_of_the_leaves(leaves: Any) -> None:
    count = tree._BLOCK * 2 + 300
    hashes = [digest(number) for number in range(count)]
    sizes = [0, 1, 2, 3, 255, tree._BLOCK - 1, tree._BLOCK, tree._BLOCK + 1, 8192, count]
    roots = roots_at(peaks(leaves(dict(enumerate(hashes))), sizes), sizes)
    assert roots == {size: root_of(hashes[:size]) for size in sizes}


def test_where_leaves_are_missing_or_come_twice_there_is_no_root(leaves: Any) -> None:
    hashes = {number: digest(number) for number in range(10) if number != 6}
    roots = roots_at(peaks(leaves(hashes), [6, 7, 10]), [6, 7, 10])
    assert roots[6] == root_of([digest(number) for number in range(6)])
    assert roots[7] is None
    assert roots[10] is None


def test_a_log_whose_batch_was_replaced_differs_from_an_earlier_checkpoint(
    log: Any, batches: Any, spark: Any
) -> None:
    for _ in range(5):
        log.add("t")
    before = Stated("the gatekeeper's checkpoint", 5, root_of(log.leaves))
    path = log.positions[0][0]
    honest = path.read_bytes()
    log.leaves.clear()
    log.positions.clear()
    log._offsets.clear()
    log._sequences.clear()
    log.now_us -= 5_000_000
    log.roll()
    for number in range(5):
        log.add("t", [b"forged" if number == 3 else b"{}"])
    assert path.read_bytes() != honest

    def findings() -> list[Any]:
        roots = roots_at(peaks(batches(), [5]), [5])
        return tree_findings(spark, roots, [before]).collect()

    (finding,) = findings()
    assert (finding.kind, finding.leaf) == ("root_differs", 5)
    assert "the gatekeeper's checkpoint" in finding.text
    path.write_bytes(honest)
    assert findings() == []


def test_a_root_beyond_the_log_is_a_finding(spark: Any) -> None:
    (finding,) = tree_findings(spark, {9: None}, [Stated("x", 9, bytes(32))]).collect()
    assert finding.kind == "root_unknown"
