"""A witness's memory on the gatekeeper's own disk: the last checkpoint, alarms, and evidence.

    witness/origin       the log that it watches, written once: without a checkpoint beside it,
                         the memory was lost
    witness/checkpoint   the last signed note that it accepted, replaced whole
    witness/alarm        the verdict that only an operator takes back
    witness/evidence/    notes that contradict each other; never overwritten, never removed

Everything is synced before it counts. Knows files and notes; decides nothing.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from log_format.checkpoint_note import TreeHead, parse_tree_head
from log_format.errors import FormatError
from log_format.note import NOTE_BYTES_MAX, parse_note

FOLDER: Final = "witness"
EVIDENCE_MAX: Final = 1000
"""Pairs of notes kept: a core that shows a new fork every second fills 8 MiB, and no more."""


@dataclass(frozen=True, slots=True)
class Remembered:
    """What was found on disk. `note` is the last checkpoint as text; `lost` says why it is not
    there although it should be."""

    note: str | None = None
    head: TreeHead | None = None
    lost: str | None = None
    alarm: str | None = None


class WitnessMemory:
    """The folder `witness` below the gatekeeper's data. One process uses it at a time."""

    def __init__(self, data: Path) -> None:
        self.folder = data / FOLDER
        self._checkpoint = self.folder / "checkpoint"
        self._origin = self.folder / "origin"
        self._alarm = self.folder / "alarm"
        self.evidence = self.folder / "evidence"

    def prepare(self) -> None:
        """Make the folders."""
        for folder in (self.folder, self.evidence):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def load(self) -> Remembered:
        """What is remembered. A checkpoint that can't be read is a lost one."""
        began, alarm = _text(self._origin), _text(self._alarm)
        alarm = None if alarm is None else alarm.strip() or "unknown"
        try:
            note = _text(self._checkpoint)
        except OSError as error:
            return Remembered(lost=f"checkpoint: {error.strerror}", alarm=alarm)
        if note is None:
            lost = None if began is None else "checkpoint: the file is gone"
            return Remembered(lost=lost, alarm=alarm)
        try:
            head = parse_tree_head(parse_note(note).text)
        except FormatError as error:
            return Remembered(lost=f"checkpoint: {error}", alarm=alarm)
        return Remembered(note, head, alarm=alarm)

    def keep(self, note: str, origin: str) -> None:
        """Remember a checkpoint. When this returns, a loss of power takes it back no more."""
        # The checkpoint comes first: an origin alone means that something was lost.
        replace_whole(self._checkpoint, note)
        if not self._origin.exists():
            replace_whole(self._origin, f"{origin}\n")

    def keep_alarm(self, code: str) -> None:
        """Keep an alarm beyond this process's life."""
        replace_whole(self._alarm, f"{code}\n")

    def keep_evidence(self, code: str, remembered: str | None, shown: str) -> list[Path]:
        """Set two notes aside, each in a file of its own that is never written again.

        The same contradiction is kept once; returns the files, old or new.
        """
        known = sorted(self.evidence.glob(f"*-{code}-shown.note"))
        for path in known:
            before = path.with_name(path.name.replace("-shown.note", "-remembered.note"))
            if _text(path) == shown and _text(before) == remembered:
                return [each for each in (before, path) if each.exists()]
        number = len(list(self.evidence.glob("*-shown.note")))
        if number >= EVIDENCE_MAX:
            return []
        pair = [(f"{number:04d}-{code}-shown.note", shown)]
        if remembered is not None:
            pair.insert(0, (f"{number:04d}-{code}-remembered.note", remembered))
        for name, text in pair:
            _write_new(self.evidence / name, text)
        _sync_folder(self.evidence)
        return [self.evidence / name for name, _ in pair]

    def begin_anew(self, note: str, origin: str) -> None:
        """An operator's word: this checkpoint counts from now on, and the alarm is over."""
        self.prepare()
        replace_whole(self._checkpoint, note)
        replace_whole(self._origin, f"{origin}\n")
        self._alarm.unlink(missing_ok=True)
        _sync_folder(self.folder)


def replace_whole(path: Path, text: str) -> None:
    """Replace a file in one step, and sync the file before the step and the folder after it."""
    fresh = path.with_name(f".{path.name}.new")
    fresh.unlink(missing_ok=True)
    _write_new(fresh, text)
    fresh.replace(path)
    _sync_folder(path.parent)


def _write_new(path: Path, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8", newline="") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _text(path: Path) -> str | None:
    """A small file's text, None where it is not there; what is not UTF-8 is no note either."""
    try:
        with path.open("rb") as file:
            return file.read(NOTE_BYTES_MAX + 1).decode("utf-8", "replace")
    except FileNotFoundError:
        return None
