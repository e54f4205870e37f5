"""The spool's promise when the process dies between any two bytes that it writes."""

import os
from pathlib import Path

import pytest

from sidecar.spool.spool_files import FileLayer, SpoolFiles, Stored

SEGMENT_BYTES = 300


class Crash(BaseException):
    """The process is gone. No error handler of ours may see it as an error."""


class CrashingLayer(FileLayer):
    """Dies when so many bytes were written; what was written before stays."""

    def __init__(self, bytes_left: int) -> None:
        self.bytes_left = bytes_left

    def write(self, descriptor: int, data: bytes | memoryview) -> int:
        if len(data) > self.bytes_left:
            os.write(descriptor, bytes(data[: self.bytes_left]))
            raise Crash
        self.bytes_left -= len(data)
        return super().write(descriptor, data)

    def sync(self, descriptor: int) -> None:
        """Nothing to wait for: a dead process loses no page of the system's cache."""


class Run:
    """A script of appends and marks, and what it was told before it died."""

    def __init__(self) -> None:
        self.kept: dict[int, bytes] = {}
        self.trying: set[int] = set()
        self.marking: set[int] = set()
        self.found: dict[int, bytes] = {}
        self.next_order = 0

    def play(self, folder: Path, layer: FileLayer) -> None:
        spool = SpoolFiles(folder, segment_bytes=SEGMENT_BYTES, files=layer)
        try:
            spool.open(lambda stored: None)
            positions: dict[int, int] = {}
            for step in range(8):
                orders = [2 * step, 2 * step + 1]
                frames = [(order, b"frame %02d " % order * (1 + order % 5)) for order in orders]
                self.trying = set(orders)
                stored = spool.append(frames, step)
                self.trying = set()
                self.kept.update(frames)
                positions.update(zip(orders, stored, strict=True))
                if step % 2:
                    self.marking = {2 * step - 2, 2 * step}
                    spool.mark([positions[order] for order in self.marking], step)
                    for order in self.marking:
                        del self.kept[order]
                    self.marking = set()
        finally:
            spool.close()

    def reopen(self, folder: Path) -> SpoolFiles:
        def found(stored: Stored) -> None:
            assert stored.order not in self.found, "no frame is there twice"
            self.found[stored.order] = bytes(stored.frame)

        spool = SpoolFiles(folder, segment_bytes=SEGMENT_BYTES)
        spool.open(found)
        return spool


def bytes_of_a_whole_run(folder: Path) -> int:
    layer = CrashingLayer(1 << 30)
    Run().play(folder, layer)
    return (1 << 30) - layer.bytes_left


def test_a_crash_at_any_byte_loses_nothing_that_was_stored_and_brings_back_nothing_marked(
    tmp_path: Path,
) -> None:
    total = bytes_of_a_whole_run(tmp_path / "whole")
    for end in range(0, total, 7):
        folder, run = tmp_path / str(end), Run()
        with pytest.raises(Crash):
            run.play(folder, CrashingLayer(end))
        spool = run.reopen(folder)
        sure = {order: frame for order, frame in run.kept.items() if order not in run.marking}
        assert {order: run.found.get(order) for order in sure} == sure
        assert set(run.found) - set(sure) <= run.trying | run.marking
        assert list(run.found) == sorted(run.found), "and in order"
        assert spool.damaged_bytes == 0, "a torn tail is no damage"
        assert spool.next_order > max(run.found, default=-1)
        # It goes on as if nothing had been.
        (position,) = spool.append([(100, b"after")], 0)
        spool.close()
        again = Run()
        again.reopen(folder).close()
        assert again.found == run.found | {100: b"after"}
        assert position


def test_two_crashes_one_after_the_other_change_nothing(tmp_path: Path) -> None:
    run = Run()
    with pytest.raises(Crash):
        run.play(tmp_path, CrashingLayer(500))
    for left in range(9):
        spool = SpoolFiles(tmp_path, segment_bytes=SEGMENT_BYTES, files=CrashingLayer(left))
        try:
            spool.open(lambda stored: None)
        except Crash:
            continue
        finally:
            spool.close()
    run.reopen(tmp_path).close()
    assert set(run.kept) - run.marking <= set(run.found)
    assert len(list(tmp_path.iterdir())) < 20


@pytest.mark.parametrize("kept_bytes", range(9))
def test_a_new_segment_that_was_hardly_begun_is_no_obstacle(
    tmp_path: Path, kept_bytes: int
) -> None:
    run = Run()
    run.play(tmp_path, FileLayer())
    (tmp_path / "0000000099.spool").write_bytes(b"SGSPOOL1"[:kept_bytes])
    run.reopen(tmp_path).close()
    assert run.found == run.kept
