"""Checkpoints on disk: the newest is found again, others are kept and thinned, damage is named."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core_log.log.files import OsFiles
from core_log.tree.checkpoint_notes import CheckpointNotes, SignedHead, parse_signed_head, thinned
from log_format.checkpoint_note import TreeHead
from log_format.errors import BadField
from log_format.note import Note, Signature

ORIGIN = "sidegate/00"


def signed(size: int, *cosigners: str) -> SignedHead:
    head = TreeHead(ORIGIN, size, size.to_bytes(32))
    lines = [Signature(name, bytes(4), bytes(64)) for name in (ORIGIN, *cosigners)]
    return SignedHead(Note(head.text, tuple(lines)), head)


@pytest.fixture
def notes(tmp_path: Path) -> CheckpointNotes:
    return CheckpointNotes(OsFiles(), tmp_path / "tree", ORIGIN)


def test_the_newest_is_found_again(notes: CheckpointNotes) -> None:
    assert notes.load_newest() is None
    notes.save_newest(signed(7))
    notes.save_newest(signed(9, "gk"))
    assert notes.load_newest() == signed(9, "gk")
    assert notes.load_newest().cosignatures == 1
    assert notes.load(9) == signed(9, "gk")
    assert notes.problems == []


def test_the_series_takes_the_place_of_a_newest_that_is_lost_or_damaged(
    notes: CheckpointNotes, tmp_path: Path
) -> None:
    notes.keep(signed(5))
    notes.keep(signed(12))
    notes.save_newest(signed(20))
    assert notes.sizes() == [5, 12]
    assert notes.load(5) == signed(5)
    assert notes.load(6) is None
    (tmp_path / "tree/checkpoint").write_bytes(b"rubbish")
    assert notes.load_newest() == signed(12)
    assert "tree/checkpoint can't be read" in notes.problems[0]
    notes.drop([12])
    assert notes.load_newest() == signed(5)


def test_a_checkpoint_of_another_log_is_refused(notes: CheckpointNotes) -> None:
    with pytest.raises(BadField, match="is of sidegate/00, and this log is sidegate/01"):
        parse_signed_head(str(signed(5).note).encode(), "sidegate/01")


def test_what_interrupted_writes_left_is_removed(notes: CheckpointNotes, tmp_path: Path) -> None:
    notes.remove_temporary()
    notes.keep(signed(5))
    left = [tmp_path / "tree/checkpoint.tmp", tmp_path / "tree/checkpoints/7.tmp"]
    for path in left:
        path.write_bytes(b"x")
    notes.remove_temporary()
    assert not any(path.exists() for path in left)
    assert notes.sizes() == [5]


def test_old_checkpoints_are_thinned_by_their_age() -> None:
    day = 86_400
    now = 1_700_000_000
    times = [(now - age, now - age) for age in range(0, 10 * day, 20)]
    dropped = thinned(times, now)
    kept = [size for size, _ in times if size not in dropped]
    ages = [now - size for size in kept]
    assert ages[0] == 0
    assert 59 <= sum(age <= 3_600 for age in ages) <= 62
    assert 22 <= sum(3_600 < age <= day for age in ages) <= 25
    assert 8 <= sum(age > day for age in ages) <= 11


@given(st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 10**6))), st.integers(0, 10**6))
def test_thinning_never_takes_the_newest_and_has_an_end(
    times: list[tuple[int, int]], now: int
) -> None:
    dropped = thinned(times, now)
    left = [(size, time_s) for size, time_s in times if size not in dropped]
    if times:
        assert max(times)[0] not in dropped or len({size for size, _ in times}) < len(times)
    assert dropped <= {size for size, _ in times}
    assert len(left) <= 200
