"""A sound log passes; each planted fault is found and named."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from core_log.log.checkpoint import Checkpoint, save_checkpoint
from core_log.log.files import OsFiles
from log_format.envelope import decode_envelope, without_body
from log_format.layout import SEGMENT_HEAD_BYTES
from sidegate.checker.verify import (
    CannotCheckError,
    LogReport,
    find_logs,
    segments_of,
    verify_log,
)

WriteLog = Callable[[], Path]


def check(root: Path, jobs: int = 1) -> LogReport:
    (folder,) = find_logs(root)
    return verify_log(folder, root=root, jobs=jobs, progress=lambda _count: None)


def frame_positions(path: Path) -> list[int]:
    data, position, positions = path.read_bytes(), SEGMENT_HEAD_BYTES, []
    while position < len(data):
        positions.append(position)
        position += decode_envelope(data, position).frame_len
    return positions


def kinds(report: LogReport) -> set[str]:
    return {finding.kind for finding in report.findings}


def test_a_sound_log_has_no_findings(write_log: WriteLog) -> None:
    report = check(write_log())
    assert report.findings == []
    assert (report.segments, report.batches, report.records) == (3, 12, 24)
    assert report.topics == {"orders": {0: 12}, "payments": {0: 12}}


def test_one_changed_byte_of_a_body_is_named_by_topic_and_offset(write_log: WriteLog) -> None:
    root = write_log()
    path = segments_of(root / "data" / "core")[1]
    path.write_bytes(path.read_bytes().replace(b"needle-6", b"nEedle-6"))
    (finding,) = check(root).findings
    assert finding.kind == "body_hash"
    assert (finding.topic, finding.first_offset, finding.last_offset) == ("orders", 6, 7)


def test_every_changed_bit_of_a_segment_is_found(write_log: WriteLog) -> None:
    root = write_log()
    path = segments_of(root / "data" / "core")[1]
    whole = path.read_bytes()
    for position in range(len(whole)):
        damaged = bytearray(whole)
        damaged[position] ^= 1 << position % 8
        path.write_bytes(damaged)
        assert check(root).findings, f"byte {position}"


def test_every_truncation_of_a_middle_segment_is_found(write_log: WriteLog) -> None:
    root = write_log()
    path = segments_of(root / "data" / "core")[1]
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        assert check(root).findings, f"{length} bytes"


def test_an_incomplete_last_batch_is_a_torn_tail_and_not_a_finding(write_log: WriteLog) -> None:
    root = write_log()
    path = segments_of(root / "data" / "core")[2]
    last = frame_positions(path)[-1]
    path.write_bytes(path.read_bytes()[: last + 50])
    report = check(root)
    assert report.findings == []
    assert report.torn_bytes == 50


def test_an_end_that_is_gone_although_it_was_synced_is_found(write_log: WriteLog) -> None:
    root = write_log()
    folder = root / "data" / "core"
    path = segments_of(folder)[2]
    leaves = sum(len(frame_positions(each)) for each in segments_of(folder))
    checkpoint = Checkpoint(bytes(16), leaves, 0, 64, 0, 0, [], [], [])
    save_checkpoint(OsFiles(), folder, checkpoint)
    assert check(root).findings == []
    last = frame_positions(path)[-1]
    for length in (last + 50, last):
        path.write_bytes(path.read_bytes()[:length])
        (finding,) = check(root).findings
        assert finding.kind == "cut_off"
        assert f"{leaves} leaves were synced" in finding.text
    path.unlink()
    assert kinds(check(root)) == {"cut_off"}


def test_a_removed_segment_and_a_removed_batch_are_named(write_log: WriteLog) -> None:
    root = write_log()
    first, middle, _last = segments_of(root / "data" / "core")
    positions = frame_positions(first)
    data = first.read_bytes()
    first.write_bytes(data[: positions[1]] + data[positions[2] :])
    middle.unlink()
    report = check(root)
    assert kinds(report) == {"leaf_gap", "offset_gap"}
    gaps = {
        (finding.topic, finding.first_offset, finding.last_offset)
        for finding in report.findings
        if finding.kind == "offset_gap"
    }
    assert {("payments", 0, 1), ("orders", 4, 7), ("payments", 4, 7)} <= gaps


def test_a_segment_of_another_log_is_found(write_log: WriteLog) -> None:
    root = write_log()
    other = root / "data" / "core" / "x.seg"
    other.write_bytes(b"PAR1")
    assert kinds(check(root)) == {"foreign_file"}


def test_damage_does_not_hide_what_follows_it(write_log: WriteLog) -> None:
    root = write_log()
    path = segments_of(root / "data" / "core")[0]
    positions = frame_positions(path)
    data = bytearray(path.read_bytes())
    data[positions[1] + 30] ^= 1
    path.write_bytes(data)
    report = check(root)
    assert report.batches == 11
    assert "envelope_checksum" in kinds(report)


def test_bodies_removed_by_retention_are_counted_and_sound(write_log: WriteLog) -> None:
    root = write_log()
    path = segments_of(root / "data" / "core")[0]
    data = path.read_bytes()
    envelope = decode_envelope(data, SEGMENT_HEAD_BYTES)
    rest = data[SEGMENT_HEAD_BYTES + envelope.frame_len :]
    path.write_bytes(data[:SEGMENT_HEAD_BYTES] + without_body(envelope.raw) + rest)
    report = check(root)
    assert report.findings == []
    assert report.bodies_removed == 1


def test_a_folder_without_a_log_can_not_be_checked(tmp_path: Path) -> None:
    with pytest.raises(CannotCheckError, match="holds no log"):
        find_logs(tmp_path)
    with pytest.raises(CannotCheckError, match="not a folder"):
        find_logs(tmp_path / "none")


def run_verify(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "sidegate", "log", "verify", *arguments],
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_command_exits_0_when_sound_1_with_findings_2_when_it_could_not_run(
    write_log: WriteLog, tmp_path: Path
) -> None:
    root = write_log()
    sound = run_verify(str(root), "--json")
    assert sound.returncode == 0, sound.stderr
    assert json.loads(sound.stdout)["logs"][0]["messages"] == 24
    path = segments_of(root / "data" / "core")[1]
    path.write_bytes(path.read_bytes().replace(b"needle-6", b"nEedle-6"))
    found = run_verify(str(root))
    assert found.returncode == 1
    assert "orders/0 offsets 6 to 7" in found.stdout
    missing = run_verify(str(tmp_path / "nowhere"))
    assert missing.returncode == 2
    assert "not a folder" in missing.stderr


def test_a_log_behind_a_symbolic_link_is_found(write_log: WriteLog, tmp_path: Path) -> None:
    data = write_log() / "data"
    state = tmp_path / "state"
    state.mkdir()
    (state / "data").symlink_to(data)
    assert check(state).batches == 12
