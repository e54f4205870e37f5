"""The tree, recomputed leaf by leaf, against what lies beside the log."""

from pathlib import Path
from typing import Any

import pytest

from sidegate.checker.tree_check import TreeCheck, split_views
from sidegate.checker.tree_files import TreeFiles


@pytest.fixture
def large(tmp_path: Path, signed_log: Any) -> Any:
    """A log whose tree has full tiles, partial ones, and a second level."""
    log = type(signed_log)(tmp_path / "large", 600, 200)
    log.write()
    return log


def fed(log: Any, leaves: list[bytes | None] | None = None) -> TreeCheck:
    files = TreeFiles(log.folder, log.root)
    check = TreeCheck(files, files.claims)
    check.feed(0, log.leaves() if leaves is None else leaves)
    check.finish("core")
    return check


def test_a_sound_tree_of_any_size_fits(large: Any, signed_log: Any) -> None:
    signed_log.write()
    for log in (signed_log, large):
        check = fed(log)
        assert check.findings == []
        assert check.differing == []
        assert check.size == len(log.frames)


@pytest.mark.parametrize("leaf", [0, 255, 256, 599])
def test_a_leaf_that_differs_from_its_tile_is_named(large: Any, leaf: int) -> None:
    leaves: list[bytes | None] = list(large.leaves())
    leaves[leaf] = bytes(32)
    check = fed(large, leaves)
    assert check.differing == [leaf]
    assert any(each.kind == "tree_root" for each in check.findings)


def test_a_tile_above_the_leaves_is_held_against_them(large: Any) -> None:
    path = large.folder / "tree" / "tile" / "1" / "000.p" / "2"
    path.write_bytes(bytes(32) + path.read_bytes()[32:])
    check = fed(large)
    assert [(each.kind, "tile has 1" in each.text) for each in check.findings] == [("tile", True)]


def test_a_missing_tile_is_named(large: Any) -> None:
    (large.folder / "tree" / "tile" / "0" / "001").unlink()
    (missing,) = fed(large).findings
    assert (missing.kind, "leaves from 256 on" in missing.text) == ("tile", True)


def test_leaves_that_the_log_lost_are_taken_from_their_tiles(large: Any) -> None:
    leaves: list[bytes | None] = list(large.leaves())
    leaves[300] = None
    assert fed(large, leaves).findings == []
    (large.folder / "tree" / "tile" / "0" / "001").unlink()
    broken = fed(large, leaves)
    assert broken.broken_at == 300
    assert [each.kind for each in broken.findings] == ["tree_broken"]


def test_segments_may_come_with_a_gap_or_an_overlap_between_them(large: Any) -> None:
    files = TreeFiles(large.folder, large.root)
    check = TreeCheck(files, files.claims)
    leaves = large.leaves()
    check.feed(0, leaves[:100])
    check.feed(110, leaves[110:300])
    check.feed(290, leaves[290:])
    check.finish("core")
    assert check.findings == []


def test_what_the_tree_covers_and_the_log_does_not_is_missing(large: Any) -> None:
    findings = fed(large, list(large.leaves()[:597])).findings
    assert {each.kind for each in findings} == {"cut_off"}
    assert any("checkpoint of 600 leaves" in each.text for each in findings)
    assert any("state covers 600" in each.text for each in findings)


def test_a_state_with_another_root_is_found(signed_log: Any) -> None:
    signed_log.write()
    state = signed_log.folder / "tree" / "state"
    other = type(signed_log)(signed_log.root / "other")
    other.write()
    state.write_bytes((other.folder / "tree" / "state").read_bytes())
    assert [each.file for each in fed(signed_log).findings] == ["data/core/tree/state"]


def test_checkpoints_of_one_size_must_have_one_root(signed_log: Any) -> None:
    claims = [signed_log.remember("a", 7), signed_log.remember("b", 7), signed_log.remember("c", 6)]
    assert list(split_views(claims)) == []
    signed_log.frames[2] = signed_log.frames[0]
    claims.append(signed_log.remember("d", 7))
    (split,) = split_views(claims)
    assert (split.kind, split.file) == ("split_view", "b")
