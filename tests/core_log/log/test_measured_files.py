"""The stopwatch on syncs changes nothing else about files."""

from pathlib import Path

from core_log.log.measured_files import MeasuredFiles


def test_a_measured_file_is_a_file_whose_syncs_are_told(tmp_path: Path) -> None:
    told: list[tuple[str, float]] = []
    files = MeasuredFiles(lambda kind, seconds: told.append((kind, seconds)))
    segment = files.open(tmp_path / "00000000000000000000.seg", "create")
    assert segment.write(0, [b"abc", b"def"]) == 6
    segment.sync()
    assert segment.size() == 6
    assert segment.read(2, 3) == b"cde"
    assert bytes(segment.map()[:6]) == b"abcdef"
    segment.truncate(2)
    assert segment.read(0, 9) == b"ab"
    segment.close()
    other = files.open(tmp_path / "checkpoint", "create")
    other.sync()
    other.close()
    assert [kind for kind, _ in told] == ["segment", "other"]
    assert all(seconds >= 0 for _, seconds in told)
