"""A log against its tree: when there is one, whose checkpoints count, and what stays unproven."""

from typing import Any

from log_format.checkpoint_note import log_origin
from sidegate.checker.findings import SegmentSummary
from sidegate.checker.log_tree import Keys, LogTree, TreeReport
from sidegate.checker.segment import check_segment
from sidegate.checker.verify import segments_of

LOG_ID = b"0123456789abcdef"


def summaries(log: Any) -> list[SegmentSummary]:
    return [check_segment(path, path.name, lambda _: None) for path in segments_of(log.folder)]


def report(log: Any, keys: Keys, log_id: bytes | None = LOG_ID, given: Any = ()) -> Any:
    tree = LogTree(log.folder, log.root, log_id, keys, given)
    return tree.check(summaries(log))


def test_a_log_without_tree_key_or_checkpoint_is_not_the_main_one(signed_log: Any) -> None:
    signed_log.write(tree=False)
    assert report(signed_log, Keys()) is None
    assert report(signed_log, signed_log.keys, b"another log's id") is None


def test_a_log_without_a_tree_is_unproven_until_a_witness_tells_of_one(signed_log: Any) -> None:
    signed_log.write(tree=False)
    found = report(signed_log, signed_log.keys)
    assert found.findings == []
    assert found.unproven == ["leaves 0 to 11: no cosigned checkpoint covers them"]
    told = report(signed_log, Keys(), given=[signed_log.remember("witness", 12)])
    assert [each.kind for each in told.findings] == ["tree_missing"]
    assert "checkpoint of 12 leaves" in told.findings[0].text


def test_without_keys_the_tree_is_checked_and_nothing_is_proven(signed_log: Any) -> None:
    signed_log.write()
    found: TreeReport = report(signed_log, Keys())
    assert found.findings == []
    assert (found.leaves, found.cosigned) == (12, 0)
    assert "no key of this log's core" in found.unproven[0]
    assert "no witness's key" in found.unproven[1]


def test_a_checkpoint_of_another_log_in_the_folder_is_named(signed_log: Any) -> None:
    signed_log.write()
    found = report(signed_log, Keys(), b"another log's id")
    assert {each.kind for each in found.findings} == {"checkpoint"}
    assert log_origin(b"another log's id") in found.findings[0].text


def test_a_false_checkpoint_proves_nothing_even_where_it_is_cosigned(signed_log: Any) -> None:
    signed_log.write(cosigned=(4, 8, 12))
    path = segments_of(signed_log.folder)[2]
    signed_log.batches[9].values[0] = b'{"n":8}'
    changed = signed_log.make_frames()[9]
    path.write_bytes(path.read_bytes().replace(signed_log.frames[9], changed))
    found = report(signed_log, signed_log.keys)
    assert found.cosigned == 8


def test_damage_that_throws_leaf_numbers_far_apart_needs_no_memory(signed_log: Any) -> None:
    signed_log.write()
    summary = summaries(signed_log)[0]
    summary.leaves[10**15] = bytes(32)
    tree = LogTree(signed_log.folder, signed_log.root, LOG_ID, Keys(), ())
    assert tree.check([summary]) is not None
