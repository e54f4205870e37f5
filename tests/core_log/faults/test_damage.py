"""One flipped bit or a cut at every byte of a small log: refused or repaired, never wrong.

The log has a sealed segment that the cleaner has rewritten, a growing one with two groups, and
all the files beside them. After each damage, every message must read as it was written, or be
named as lost by a typed error or by the recovery's report.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from core_log.log.log_errors import Damaged, LogRefused
from core_log.log.options import Retention
from core_log.log.results import RecoveryReport
from log_format.envelope import decode_envelope
from log_format.layout import SEGMENT_HEAD_BYTES

OPTIONS = {
    "require_provenance": False,
    "erase_delay_s": 0.0,
    "checkpoint_idle_s": 1.0,
    # `test_tree_faults` damages the tree's files.
    "tree": False,
}
TOPIC = "t"


@dataclass
class Sample:
    """A log as bytes, and what is in it."""

    files: dict[Path, bytes]
    messages: dict[int, bytes]
    start: int
    last_group_at: int
    """The first offset of the group that was committed last."""

    def ends(self, path: Path) -> dict[int, int]:
        """Where each message's frame ends in a segment."""
        data, position, ends = self.files[path], SEGMENT_HEAD_BYTES, {}
        while position < len(data):
            envelope = decode_envelope(data, position)
            position += envelope.frame_len
            ends[envelope.stamp.base_offset] = position
        return ends

    def boundaries(self, path: Path) -> set[int]:
        return {0, SEGMENT_HEAD_BYTES, *self.ends(path).values()}

    def behind(self, path: Path, length: int) -> set[int]:
        return {offset for offset, end in self.ends(path).items() if end > length}


def build(kit: Any, *, closed: bool) -> Sample:
    """Offsets 0 and 1 are dropped and erased, 2 to 4 lie in the sealed segment, 5 to 9 behind."""
    disk, clock = kit.disk(), kit.clock()
    log = kit.open(disk, clock, **OPTIONS)
    messages = {}

    def group(*sequences: int) -> None:
        frames = []
        for sequence in sequences:
            messages[sequence] = b"message %d" % sequence
            frames.append(
                kit.frame([messages[sequence]], sequence=sequence, topic=TOPIC, principal=None)
            )
        kit.append(log, *frames)

    group(0, 1)
    group(2)
    group(3, 4)
    log.clean({TOPIC: Retention(drop_below={0: 2})}, clock.now_us())
    log.turn()
    clock.advance(2)
    log.turn()
    report = log.clean({TOPIC: Retention(drop_below={0: 2})}, clock.now_us())
    assert (report.segments_rewritten, report.bodies_removed) == (1, 2)
    group(5)
    group(6, 7)
    group(8, 9)
    if closed:
        log.close()
    else:
        disk = disk.kill()
    assert len([name for name in disk.names(kit.folder) if name.endswith(".seg")]) == 2
    files = {path: bytes(inode.cache) for path, inode in disk.names_now.items()}
    return Sample(files, messages, start=2, last_group_at=8)


def damaged_disk(kit: Any, sample: Sample, path: Path, content: bytes) -> Any:
    disk = kit.disk()
    for name, data in {**sample.files, path: content}.items():
        file = disk.open(name, "create")
        if data:
            file.write(0, [data])
        file.sync()
    disk.sync_directory(kit.folder)
    return disk


@dataclass
class Outcome:
    """What could be read of a damaged log."""

    report: RecoveryReport
    read: dict[int, bytes]
    refused: set[int]
    end: int


def outcome_of(kit: Any, disk: Any) -> Outcome | None:
    """Open and read everything; None if the log was refused as a whole."""
    try:
        log = kit.open(disk, **OPTIONS)
    except LogRefused:
        return None
    read: dict[int, bytes] = {}
    refused: set[int] = set()
    at, end = log.start_offset(TOPIC, 0), log.end_offset(TOPIC, 0)
    while at < end:
        try:
            result = log.read(TOPIC, 0, at, 10_000)
        except Damaged as damage:
            assert damage.first == at < damage.end <= end  # noqa: PT017 - any number of them
            refused.update(range(damage.first, damage.end))
            at = damage.end
            continue
        for frame in result.frames:
            stamp = decode_envelope(frame).stamp
            for number, value in enumerate(kit.values_of(frame)):
                read[stamp.base_offset + number] = value
        assert result.next_offset > at
        at = result.next_offset
    append_still_works(kit, log, end)
    return Outcome(log.recovery, read, refused, end)


def append_still_works(kit: Any, log: Any, end: int) -> None:
    """Whatever happened, the log goes on behind its end."""
    frame = kit.frame([b"next"], sequence=0, topic=TOPIC, principal=None, producer_id=77)
    (outcome,) = kit.append(log, frame)
    assert outcome.base_offset == end


def check(
    sample: Sample, outcome: Outcome | None, path: Path, length: int | None, *, closed: bool
) -> None:
    """Never silently wrong, and nothing given up that is still there.

    `length` is what the file was cut to. Who takes the end of a log away takes the proof away
    too that it was there; only a checkpoint still has it.
    """
    if outcome is None:
        return
    for offset, value in outcome.read.items():
        assert sample.messages[offset] == value, f"offset {offset} reads {value!r}"
    missing = set(range(sample.start, len(sample.messages))) - set(outcome.read)
    cut = {offset for offset in missing if offset >= outcome.end}
    assert missing == outcome.refused | cut
    if closed:
        assert not outcome.report.cuts, "bytes that a checkpoint proves to be synced were cut"
    if cut:
        assert not closed, "what a checkpoint proves to be synced was cut"
        if length is None:
            assert outcome.report.cuts, "a tail is gone and nobody says so"
            assert min(cut) >= sample.last_group_at, "more than the last group was cut"
        else:
            assert outcome.report.cuts or length in sample.boundaries(path)
            assert cut == sample.behind(path, length)
    if path.suffix != ".seg":
        assert not missing, "an index, a checkpoint or a start cost data"


def flips(content: bytes, every_bit: bool) -> Iterator[tuple[str, bytes]]:
    for position in range(len(content)):
        for bit in range(8) if every_bit else [(position * 5 + 3) % 8]:
            flipped = bytearray(content)
            flipped[position] ^= 1 << bit
            yield f"bit {bit} of byte {position}", bytes(flipped)


def cuts(content: bytes) -> Iterator[tuple[str, bytes]]:
    for length in range(len(content)):
        yield f"cut to {length} bytes", content[:length]


def run(kit: Any, *, closed: bool, every_bit: bool = False) -> int:
    sample = build(kit, closed=closed)
    tried = 0
    for path, content in sample.files.items():
        for what, changed in (*flips(content, every_bit), *cuts(content)):
            disk = damaged_disk(kit, sample, path, changed)
            length = len(changed) if len(changed) < len(content) else None
            try:
                check(sample, outcome_of(kit, disk), path, length, closed=closed)
            except Exception as error:
                raise AssertionError(f"{path.name}, {what}") from error
            tried += 1
    return tried


def test_damage_at_every_byte_of_a_closed_log_is_never_silently_wrong(kit: Any) -> None:
    assert run(kit, closed=True) > 3000


def test_damage_at_every_byte_of_a_killed_log_is_never_silently_wrong(kit: Any) -> None:
    assert run(kit, closed=False) > 3000


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("closed", [True, False])
def test_damage_to_every_bit_is_never_silently_wrong(kit: Any, closed: Any) -> None:
    run(kit, closed=closed, every_bit=True)


@pytest.mark.parametrize("closed", [True, False])
def test_a_file_that_is_gone_is_noticed_or_not_needed(kit: Any, closed: Any) -> None:
    sample = build(kit, closed=closed)
    for path in sample.files:
        disk = damaged_disk(kit, sample, path, b"")
        disk.remove(path)
        disk.sync_directory(kit.folder)
        outcome = outcome_of(kit, disk)
        assert outcome is not None
        if path.suffix == ".seg":
            assert outcome.report.lost or outcome.end < len(sample.messages)
        else:
            assert set(outcome.read) >= set(range(2, 10))
