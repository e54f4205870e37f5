"""The records of a small log, read in this process: the core's control state and its cursors.

These logs are a few megabytes. Damage is handed over and the rest is read, as everywhere.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from log_format.errors import FormatError
from spark.damage import Damage
from spark.frame_walk import Placed, walk
from spark.log_folder import NoLog, log_folder, plan


@dataclass(frozen=True, slots=True)
class Record:
    """One record: where it stands and what it says."""

    topic: str
    offset: int
    key: bytes | None
    id: bytes | None
    value: bytes


def read_records(folder: Path, on_damage: Callable[[Damage], None]) -> Iterator[Record]:
    """Every record of the log in `folder` that still has its body; none where there is no log."""
    try:
        log = log_folder(str(folder))
    except NoLog:
        return
    for piece in plan(log, split_bytes=1 << 62):
        for found in walk(piece):
            if isinstance(found, Damage):
                on_damage(found)
                continue
            yield from _records(found, piece.file, on_damage)


def _records(placed: Placed, file: str, on_damage: Callable[[Damage], None]) -> Iterator[Record]:
    frame = placed.frame
    envelope = frame.envelope
    if not envelope.has_body or envelope.encrypted or envelope.stamp is None:
        return
    try:
        frame.check_hash()
        columns = frame.columns()
    except FormatError as error:
        on_damage(
            Damage(file, placed.position, envelope.frame_len, error.code, str(error), envelope)
        )
        return
    for index in range(columns.count):
        yield Record(
            envelope.producer.topic,
            envelope.stamp.base_offset + index,
            columns.key[index],
            columns.id[index],
            columns.value[index] or b"",
        )
