"""Where partitions begin, saved whole or not at all."""

from pathlib import Path

from core_log.control.starts import STARTS_NAME, load_starts, save_starts
from core_log.log.files import OsFiles


def test_what_is_saved_is_loaded(tmp_path: Path) -> None:
    starts = {("orders", 0): 17, ("orders", 1): 2**40, ("_audit", 0): 1}
    save_starts(OsFiles(), tmp_path, starts)
    assert load_starts(OsFiles(), tmp_path) == starts


def test_without_a_file_everything_begins_at_0(tmp_path: Path) -> None:
    assert load_starts(OsFiles(), tmp_path) == {}


def test_a_damaged_file_is_not_believed(tmp_path: Path) -> None:
    save_starts(OsFiles(), tmp_path, {("orders", 0): 17})
    path = tmp_path / STARTS_NAME
    whole = path.read_bytes()
    for position in range(len(whole)):
        damaged = bytearray(whole)
        damaged[position] ^= 4
        path.write_bytes(damaged)
        assert load_starts(OsFiles(), tmp_path) is None
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        assert load_starts(OsFiles(), tmp_path) is None
