"""A log's folder: what is found in it, and what is set aside there."""

import struct
from pathlib import Path
from typing import Any

import pytest
from crc32c import crc32c

from core_log.log.files import OsFiles
from core_log.log.folder import TORN_FILES_MAX, keep_torn, look_into, write_again
from core_log.log.log_errors import LogRefused
from log_format.layout import SegmentHead, encode_segment_head, segment_name


def put_segment(folder: Any, first_leaf: int, content: bytes = b"", rewritten: int = 0) -> None:
    head = encode_segment_head(SegmentHead(bytes(16), first_leaf, rewritten, 1))
    (folder / segment_name(first_leaf)).write_bytes(head + content)


def test_segments_come_in_leaf_order_with_their_heads(tmp_path: Path) -> None:
    for first_leaf in (500, 0, 20):
        put_segment(tmp_path, first_leaf, b"abc", rewritten=2)
    (tmp_path / "checkpoint").write_bytes(b"")
    folder = look_into(OsFiles(), tmp_path)
    assert [found.first_leaf for found in folder.segments] == [0, 20, 500]
    assert [found.size for found in folder.segments] == [67] * 3
    assert [found.rewritten for found in folder.segments] == [2] * 3
    assert "checkpoint" in folder.names


def test_what_an_interrupted_write_has_left_is_removed(tmp_path: Path) -> None:
    (tmp_path / "checkpoint.tmp").write_bytes(b"half")
    look_into(OsFiles(), tmp_path)
    assert not (tmp_path / "checkpoint.tmp").exists()


@pytest.mark.parametrize("content", [b"", b"short", bytes(64)])
def test_a_damaged_head_is_found_as_such(tmp_path: Path, content: Any) -> None:
    (tmp_path / segment_name(7)).write_bytes(content)
    (found,) = look_into(OsFiles(), tmp_path).segments
    assert (found.first_leaf, found.head, found.rewritten) == (7, None, 0)


def test_a_segment_of_a_newer_version_is_refused_and_stays_as_it_is(tmp_path: Path) -> None:
    put_segment(tmp_path, 3, b"frames that this version may not be able to read")
    file = tmp_path / segment_name(3)
    head = file.read_bytes()[:8] + struct.pack("<I", 2) + file.read_bytes()[12:56]
    newer = head + struct.pack("<I4x", crc32c(head)) + file.read_bytes()[64:]
    file.write_bytes(newer)
    with pytest.raises(LogRefused, match=r"segment version 2; .* run that version"):
        look_into(OsFiles(), tmp_path)
    assert file.read_bytes() == newer


def test_a_renamed_segment_is_refused_with_its_right_name(tmp_path: Path) -> None:
    put_segment(tmp_path, 3)
    (tmp_path / segment_name(3)).rename(tmp_path / segment_name(4))
    with pytest.raises(LogRefused, match=segment_name(3)):
        look_into(OsFiles(), tmp_path)


def test_a_torn_tail_is_kept_aside(tmp_path: Path) -> None:
    put_segment(tmp_path, 0, b"good" + b"torn")
    (found,) = look_into(OsFiles(), tmp_path).segments
    file = OsFiles().open(found.path, "read")
    name = keep_torn(OsFiles(), found, file, 68)
    assert name is not None
    assert (tmp_path / name).read_bytes() == b"torn"
    assert keep_torn(OsFiles(), found, file, 72) is None


def test_only_the_latest_torn_tails_are_kept(tmp_path: Path) -> None:
    put_segment(tmp_path, 0, bytes(100))
    (found,) = look_into(OsFiles(), tmp_path).segments
    file = OsFiles().open(found.path, "read")
    for position in range(64, 64 + 2 * TORN_FILES_MAX):
        keep_torn(OsFiles(), found, file, position)
    kept = sorted(path.name for path in tmp_path.glob("*.torn"))
    assert len(kept) == TORN_FILES_MAX
    assert kept[-1].endswith(f"-{63 + 2 * TORN_FILES_MAX:010d}.torn")


class Counting:
    """A file that counts what is written to it."""

    def __init__(self, file: Any) -> None:
        self.file = file
        self.written = 0
        self.synced = False

    def read(self, position: Any, length: Any) -> Any:
        return self.file.read(position, length)

    def write(self, position: Any, buffers: Any) -> Any:
        self.written += sum(map(len, buffers))
        return self.file.write(position, buffers)

    def sync(self) -> None:
        self.synced = True


@pytest.mark.parametrize(("readable", "written"), [(True, 50), (False, 0)])
def test_what_was_scanned_is_written_again_unless_pages_could_not_be_read(
    tmp_path: Path, readable: Any, written: Any
) -> None:
    path = tmp_path / "f"
    path.write_bytes(bytes(range(100)))
    file = Counting(OsFiles().open(path, "write"))
    write_again(file, 40, 90, readable=readable)
    assert (file.written, file.synced) == (written, True)
    assert path.read_bytes() == bytes(range(100))
