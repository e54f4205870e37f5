"""The operating system's files, and writes that are whole or did not happen."""

import errno
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from core_log.log.files import IOV_MAX, OsFiles, replace_file, write_whole


class Stubborn:
    """A file that takes a few bytes at a time, and nothing at all after `stops_after`."""

    def __init__(self, step: int, stops_after: int = 1 << 30) -> None:
        self.step = step
        self.stops_after = stops_after
        self.data = bytearray()
        self.most_buffers = 0

    def write(self, position: int, buffers: Any) -> int:
        assert position == len(self.data)
        self.most_buffers = max(self.most_buffers, len(buffers))
        taken = b"".join(buffers)[: self.step]
        if len(self.data) >= self.stops_after:
            return 0
        self.data += taken
        return len(taken)


@pytest.mark.parametrize("step", [1, 3, 7, 1000])
def test_short_writes_are_continued_where_they_stopped(step: Any) -> None:
    file = Stubborn(step)
    buffers = [b"one", b"", b"three" * 9, b"x"]
    assert write_whole(file, 0, buffers) == len(b"".join(buffers))
    assert file.data == b"".join(buffers)


def test_no_write_has_more_buffers_than_the_system_takes() -> None:
    file = Stubborn(1 << 20)
    write_whole(file, 0, [b"ab"] * (2 * IOV_MAX + 5))
    assert file.most_buffers == IOV_MAX
    assert file.data == b"ab" * (2 * IOV_MAX + 5)


def test_a_write_that_takes_nothing_is_an_error_and_not_a_loop() -> None:
    with pytest.raises(OSError, match="took no bytes") as caught:
        write_whole(Stubborn(4, stops_after=8), 0, [b"0123456789abcdef"])
    assert caught.value.errno == errno.EIO


def test_a_file_reads_back_what_was_written(tmp_path: Path) -> None:
    file = OsFiles().open(tmp_path / "f", "create")
    assert write_whole(file, 0, [b"hello ", b"world"]) == 11
    file.sync()
    assert (file.size(), file.read(6, 100), file.read(50, 4)) == (11, b"world", b"")
    assert bytes(file.map()) == b"hello world"
    file.truncate(5)
    assert file.read(0, 100) == b"hello"
    file.close()
    file.close()


def test_an_empty_file_maps_to_nothing(tmp_path: Path) -> None:
    assert OsFiles().open(tmp_path / "f", "create").map() == b""


def test_a_file_is_private_to_its_owner(tmp_path: Path) -> None:
    OsFiles().open(tmp_path / "f", "create")
    assert stat.S_IMODE((tmp_path / "f").stat().st_mode) == 0o600


def test_a_reader_finishes_on_a_file_that_was_replaced_or_removed(tmp_path: Path) -> None:
    files = OsFiles()
    replace_file(files, tmp_path / "f", [b"old"])
    reader = files.open(tmp_path / "f", "read")
    replace_file(files, tmp_path / "f", [b"new"])
    assert reader.read(0, 9) == b"old"
    files.remove(tmp_path / "f")
    files.remove(tmp_path / "f")
    assert reader.read(0, 9) == b"old"
    assert not files.exists(tmp_path / "f")


def test_a_descriptor_is_given_back_when_the_last_reader_lets_go(tmp_path: Path) -> None:
    files = OsFiles()
    file = files.open(tmp_path / "f", "create")
    fd = file._fd
    del file
    with pytest.raises(OSError, match="Bad file"):
        os.fstat(fd)


def test_replacing_leaves_no_temporary_file(tmp_path: Path) -> None:
    replace_file(OsFiles(), tmp_path / "f", [b"a", b"b"])
    assert OsFiles().names(tmp_path) == ["f"]


class FailsToRename(OsFiles):
    def rename(self, old: Path, new: Path) -> None:
        raise OSError(errno.EIO, "no")


def test_a_replacing_that_fails_leaves_the_old_content(tmp_path: Path) -> None:
    replace_file(OsFiles(), tmp_path / "f", [b"old"])
    with pytest.raises(OSError, match="no"):
        replace_file(FailsToRename(), tmp_path / "f", [b"new"])
    assert (tmp_path / "f").read_bytes() == b"old"


def test_a_lock_is_held_by_one_at_a_time(tmp_path: Path) -> None:
    files = OsFiles()
    lock = files.lock(tmp_path / "lock")
    assert lock is not None
    assert files.lock(tmp_path / "lock") is None
    lock.release()
    lock.release()
    again = files.lock(tmp_path / "lock")
    assert again is not None
    again.release()


def test_folders_are_made_down_to_the_last_and_private(tmp_path: Path) -> None:
    files = OsFiles()
    files.make_directory(tmp_path / "a" / "b")
    files.make_directory(tmp_path / "a" / "b")
    assert stat.S_IMODE((tmp_path / "a" / "b").stat().st_mode) == 0o700
    assert files.free_bytes(tmp_path) > 0
