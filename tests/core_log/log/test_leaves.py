"""Leaves are read back from the log by their number, whatever the cleaner did to their bodies."""

from typing import Any

from core_log.log.cleaner import Cleaner
from core_log.log.files import OsFiles
from core_log.log.leaves import Leaves, lost_leaf_hash
from core_log.log.options import LogOptions, Retention
from log_format.layout import SEGMENT_HEAD_BYTES, segment_name
from log_format.leaf import leaf_hash


def test_every_leaf_is_found_with_its_hash(journals: Any) -> None:
    journal = journals.fill(100)
    leaves = Leaves(journal.segments)
    hashes = list(leaves.hashes(0, 100))
    assert len(journal.segments) > 2
    for leaf in range(100):
        envelope = leaves.envelope(leaf)
        assert envelope.stamp.leaf == leaf
        assert leaf_hash(envelope.raw) == hashes[leaf]
    assert list(leaves.hashes(37, 80)) == hashes[37:80]
    assert list(leaves.hashes(98, 103)) == [*hashes[98:], None, None, None]
    assert leaves.envelope(100) is None


def test_a_leaf_survives_the_removal_of_its_body(journals: Any) -> None:
    journal = journals.fill(100)
    before = list(Leaves(journal.segments).hashes(0, 100))
    options = LogOptions(erase_delay_s=0)
    cleaner = Cleaner(journal, OsFiles(), journals.path, options, journals.clock)
    cleaned = cleaner.clean({"orders": Retention(drop_below={0: 60})}, journals.clock.now_us())
    assert cleaned.report.segments_rewritten > 1
    assert list(Leaves(journal.segments).hashes(0, 100)) == before
    assert list(Leaves(journals.open().segments).hashes(0, 100)) == before
    assert not Leaves(journal.segments).envelope(0).has_body


def test_a_leaf_that_damage_took_is_none_and_the_others_stay(journals: Any) -> None:
    journal = journals.fill(100)
    before = list(Leaves(journal.segments).hashes(0, 100))
    with (journals.path / segment_name(0)).open("r+b") as file:
        file.seek(SEGMENT_HEAD_BYTES + 40)
        file.write(b"\xff\xff\xff")
    assert list(Leaves(journals.open().segments).hashes(0, 100)) == [None, *before[1:]]
    (journals.path / segment_name(0)).unlink()
    journal = journals.open()
    first = journal.segments.sealed[0].first_leaf
    assert list(Leaves(journal.segments).hashes(0, 100)) == [None] * first + before[first:]
    assert Leaves(journal.segments).envelope(0) is None


def test_a_lost_leaf_has_a_hash_of_its_own_that_no_envelope_can_have() -> None:
    assert lost_leaf_hash(1) != lost_leaf_hash(2)
    assert len(lost_leaf_hash(1)) == 32
