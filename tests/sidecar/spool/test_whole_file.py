"""A file is the old one or the new one."""

import stat

import pytest

from sidecar.spool.whole_file import replace_file


def test_a_file_is_replaced_whole_and_for_its_owner_only(tmp_path):
    path = tmp_path / "a" / "b.json"
    for data in (b"one", b"two"):
        replace_file(path, data)
        assert path.read_bytes() == data
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [each.name for each in path.parent.iterdir()] == ["b.json"]


def test_where_the_new_one_cannot_be_written_the_old_one_stays(tmp_path):
    path = tmp_path / "b.json"
    replace_file(path, b"old")
    (tmp_path / "b.new").mkdir()
    with pytest.raises(IsADirectoryError):
        replace_file(path, b"new")
    assert path.read_bytes() == b"old"
