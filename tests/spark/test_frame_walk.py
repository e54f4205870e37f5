"""The walk finds every sound frame, whatever lies between them."""

from pathlib import Path
from typing import Any

import pytest
from crc32c import crc32c

from log_format.layout import SEGMENT_HEAD_BYTES, SegmentHead, encode_segment_head
from spark.damage import Damage
from spark.frame_walk import Placed, Range, walk
from spark.log_folder import plan


def walked(log: Any, split_bytes: int = 1 << 30) -> tuple[list[int], list[Damage]]:
    leaves, damage = [], []
    for piece in plan(log.folder, split_bytes=split_bytes):
        for found in walk(piece):
            if isinstance(found, Placed):
                assert found.frame.envelope.stamp is not None
                leaves.append(found.frame.envelope.stamp.leaf)
            else:
                damage.append(found)
    return leaves, damage


def test_every_frame_of_every_segment_is_found_in_order(log: Any) -> None:
    for number in range(6):
        log.add("t")
        if number == 2:
            log.roll()
    assert walked(log) == ([0, 1, 2, 3, 4, 5], [])


@pytest.mark.parametrize("at", range(0, 400, 7))
def test_a_changed_byte_of_an_envelope_costs_that_batch_only(log: Any, at: int) -> None:
    for _ in range(3):
        log.add("t")
    log.damage(1, at=at % 384, flip=0x40)
    leaves, damage = walked(log)
    assert leaves == [0, 2]
    assert [each.position for each in damage] == [log.positions[1][1]]
    assert damage[0].file == log.positions[1][0].name


def test_zeros_and_junk_between_frames_are_named_with_their_length(log: Any) -> None:
    log.add("t")
    path = log.positions[0][0]
    with path.open("ab") as file:
        file.write(bytes(4096) + b"SGBF junk that begins like a frame......")
    log.positions.clear()
    log.add("t")
    leaves, (damage,) = walked(log)
    assert leaves == [0, 1]
    assert damage.length == 4096 + 40


def test_an_incomplete_end_is_no_damage_of_the_last_segment_and_damage_of_others(log: Any) -> None:
    log.add("t")
    log.add("t")
    path, position, length = log.positions[1]
    path.write_bytes(path.read_bytes()[: position + length - 8])
    assert walked(log) == ([0], [])
    log.roll()
    log.add("t")
    leaves, (damage,) = walked(log)
    assert leaves == [0, 2]
    assert damage.code == "truncated"


def test_a_head_of_a_future_version_is_named_and_the_frames_are_still_read(log: Any) -> None:
    log.add("t")
    path = log.positions[0][0]
    data = bytearray(path.read_bytes())
    data[8] = 9
    data[56:60] = crc32c(bytes(data[:56])).to_bytes(4, "little")
    path.write_bytes(data)
    leaves, (damage,) = walked(log)
    assert leaves == [0]
    assert (damage.code, damage.position) == ("segment_unsupported_version", 0)


def test_a_frame_of_a_future_version_is_named(log: Any) -> None:
    log.add("t")
    log.add("t")
    log.damage(0, at=4, flip=0x02)
    leaves, (damage,) = walked(log)
    assert leaves == [1]
    assert damage.code == "unsupported_version"


def test_a_file_that_is_no_segment_at_all_is_named(log: Any) -> None:
    log.add("t")
    foreign = log.folder / f"{1:020d}.seg"
    foreign.write_bytes(b"PK\x03\x04" + bytes(5000))
    leaves, (damage, *rest) = walked(log)
    assert leaves == [0]
    assert (damage.file, damage.code) == (foreign.name, "segment_bad_magic")
    assert not rest


def test_an_empty_segment_is_damage_unless_it_is_the_last(log: Any) -> None:
    log.add("t")
    (log.folder / f"{1:020d}.seg").write_bytes(b"")
    assert walked(log) == ([0], [])


def test_a_segment_under_a_wrong_name_is_named(log: Any) -> None:
    log.add("t")
    path = log.positions[0][0]
    path.rename(log.folder / f"{5:020d}.seg")
    leaves, (damage,) = walked(log)
    assert leaves == [0]
    assert damage.code == "segment_name"


def test_an_unreadable_file_is_a_finding_and_no_crash(tmp_path: Path) -> None:
    missing = Range(str(tmp_path / "gone.seg"), "gone.seg", 0, 100, 0, 0, None, last=True)
    (damage,) = walk(missing)
    assert isinstance(damage, Damage)
    assert damage.code == "unreadable"


def test_a_segment_that_the_cleaner_rewrote_since_the_plan_is_read_by_its_leaves(log: Any) -> None:
    for _ in range(40):
        log.add("t", [b"x" * 400])
    ranges = plan(log.folder, split_bytes=8192)
    assert len(ranges) > 2
    path = log.positions[0][0]
    frames = path.read_bytes()[SEGMENT_HEAD_BYTES:]
    log.positions.clear()
    log.leaves.clear()
    log.roll()
    for _ in range(40):
        log.add("t", [b"x" * 400], removed=True, offset=len(log.leaves))
    head = encode_segment_head(SegmentHead(log.log_id, 0, 1, log.now_us))
    rewritten = head + path.read_bytes()[SEGMENT_HEAD_BYTES:]
    assert len(rewritten) < len(frames)
    path.write_bytes(rewritten)
    found = [each for piece in ranges for each in walk(piece)]
    assert all(isinstance(each, Placed) for each in found)
    stamps = [each.frame.envelope.stamp for each in found if isinstance(each, Placed)]
    assert [stamp.leaf for stamp in stamps if stamp] == list(range(40))
