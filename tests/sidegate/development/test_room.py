import errno
import os
from pathlib import Path

import pytest

from sidegate.development.addresses import chosen
from sidegate.development.room import ELSEWHERE, NoRoom, check_disk, writing
from sidegate.development.state import State


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (errno.EROFS, "Read-only file system"),
        (errno.EACCES, "Permission denied"),
        (errno.ENOSPC, "its disk is full: free some space"),
        (errno.EDQUOT, "its disk is full: free some space"),
    ],
)
def test_what_the_system_refuses_becomes_a_sentence(number: int, said: str) -> None:
    with pytest.raises(NoRoom, match=said) as refused, writing(Path("state")):
        raise OSError(number, os.strerror(number), "state/run")
    assert ELSEWHERE in str(refused.value)


def test_a_file_where_the_folder_belongs_is_named(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("")
    with pytest.raises(NoRoom, match="state is a file where a folder belongs"), writing(tmp_path):
        State(tmp_path / "state").make_folders()


def test_a_disk_below_the_cores_reserve_is_told_before_the_start(tmp_path: Path) -> None:
    state = State(tmp_path / "state")
    state.make_folders()
    state.make_documents(chosen({}, {}))
    check_disk(state.config("core"), {"SIDEGATE_CORE_LOG__DISK_RESERVE_BYTES": "0"})
    with pytest.raises(NoRoom, match=r"MiB free, and the core keeps 1073741824 MiB in reserve"):
        check_disk(state.config("core"), {"SIDEGATE_CORE_LOG__DISK_RESERVE_BYTES": "1024TiB"})


def test_a_configuration_that_can_not_be_read_is_left_to_the_core(tmp_path: Path) -> None:
    (tmp_path / "core.yaml").write_text("nonsense: 1\n")
    check_disk(tmp_path / "core.yaml", {})
