"""Bytes at positions, in a file that grows at its end."""

import errno
from pathlib import Path
from typing import Any

import pytest

from core_log.log.files import OsFiles
from core_log.log.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Any:
    return Store(OsFiles().open(tmp_path / "f", "create"), 0)


def test_appends_stand_one_behind_the_other(store: Any) -> None:
    assert [store.append([b"one"]), store.append([b"", b"two", b"three"])] == [0, 3]
    assert store.end == 11
    assert store.file.read(3, 8) == b"twothree"


def test_what_is_cut_back_is_gone_and_the_next_append_takes_its_place(store: Any) -> None:
    store.append([b"kept"])
    store.append([b"failed"])
    store.cut_back(4)
    assert (store.end, store.file.size()) == (4, 4)
    assert store.append([b"next"]) == 4
    store.sync()
    assert store.file.read(0, 99) == b"keptnext"


class Full:
    """A file that has room for half of what it is given."""

    def __init__(self, file: Any) -> None:
        self.file = file
        self.calls = 0

    def write(self, position: Any, buffers: Any) -> int:
        self.calls += 1
        if self.calls > 1:
            raise OSError(errno.ENOSPC, "full")
        return self.file.write(position, [b"".join(buffers)[:3]])


def test_a_failed_append_leaves_the_end_where_it_was(store: Any) -> None:
    store.append([b"kept"])
    failing = Store(Full(store.file), store.end)
    with pytest.raises(OSError, match="full"):
        failing.append([b"failed"])
    assert failing.end == 4
    assert store.file.size() == 7
