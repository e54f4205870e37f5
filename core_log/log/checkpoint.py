"""The checkpoint: how far the index is saved, and the state that belongs to that leaf.

One file, replaced whole. It covers synced leaves only, so it is also proof that they were synced.
The growing segment's index entries lie in a file of their own, which only grows and of which the
checkpoint names the count and the checksum. Lost or damaged it costs a scan, never data. Imports
the rungs below.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import orjson
from crc32c import crc32c

from core_log.log.files import Files, replace_file, write_whole
from core_log.log.index import ENTRY_BYTES, Index, Key, index_of_entries
from core_log.log.producers import RECENT_BYTES, ProducerKey, ProducerState

CHECKPOINT_NAME: Final = "checkpoint"
ENTRIES_SUFFIX: Final = ".entries"
"""Beside a growing segment: the entries of its index that a checkpoint counts."""
_MAGIC: Final = b"SGCKPT01"
_HEAD: Final = struct.Struct("<8sIIQQ")
"""magic, CRC-32C of what follows, zeros, length of the JSON, length of the packed batches"""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Everything needed to go on from `leaf` without reading what lies before it.

    `segment` is the last segment's first leaf, `position` where `leaf` is due in it. `entries`
    of its index are saved, with the checksum `entries_crc`; `slots` names their partitions.
    """

    log_id: bytes
    leaf: int
    segment: int
    position: int
    entries: int
    entries_crc: int
    slots: Sequence[Key]
    partitions: Sequence[tuple[Key, int, int]]
    """Key, end offset, greatest append time."""
    producers: Sequence[tuple[ProducerKey, ProducerState]]


def save_checkpoint(files: Files, directory: Path, checkpoint: Checkpoint) -> None:
    """Put a checkpoint in the place of the last one."""
    recents = b"".join(state.recent for _key, state in checkpoint.producers)
    text = orjson.dumps(
        {
            "log_id": checkpoint.log_id.hex(),
            "leaf": checkpoint.leaf,
            "segment": checkpoint.segment,
            "position": checkpoint.position,
            "entries": checkpoint.entries,
            "entries_crc": checkpoint.entries_crc,
            "slots": list(checkpoint.slots),
            "partitions": [
                (topic, partition, end, greatest)
                for (topic, partition), end, greatest in checkpoint.partitions
            ],
            "producers": [
                (
                    *key,
                    state.epoch,
                    state.next_sequence,
                    len(state.recent) // RECENT_BYTES,
                )
                for key, state in checkpoint.producers
            ],
        }
    )
    lengths = struct.pack("<QQ", len(text), len(recents))
    crc = crc32c(recents, crc32c(text, crc32c(lengths)))
    head = _HEAD.pack(_MAGIC, crc, 0, len(text), len(recents))
    replace_file(files, directory / CHECKPOINT_NAME, [head, text, recents])


def load_checkpoint(files: Files, directory: Path) -> Checkpoint | None:
    """The last checkpoint, or None if there is none that can be believed."""
    path = directory / CHECKPOINT_NAME
    if not files.exists(path):
        return None
    file = files.open(path, "read")
    data = file.read(0, file.size())
    file.close()
    if len(data) < _HEAD.size:
        return None
    magic, crc, zeros, text_len, recents_len = _HEAD.unpack_from(data)
    if magic != _MAGIC or zeros or len(data) != _HEAD.size + text_len + recents_len:
        return None
    if crc32c(data[16:]) != crc:
        return None
    fields = orjson.loads(data[_HEAD.size : _HEAD.size + text_len])
    return Checkpoint(
        log_id=bytes.fromhex(fields["log_id"]),
        leaf=fields["leaf"],
        segment=fields["segment"],
        position=fields["position"],
        entries=fields["entries"],
        entries_crc=fields["entries_crc"],
        slots=[(topic, partition) for topic, partition in fields["slots"]],
        partitions=[
            ((topic, partition), end, greatest)
            for topic, partition, end, greatest in fields["partitions"]
        ],
        producers=_producers(fields["producers"], data[_HEAD.size + text_len :]),
    )


def save_entries(files: Files, segment: Path, saved: int, packed: bytes) -> None:
    """Add packed entries behind the `saved` ones that are there already."""
    path = segment.with_suffix(ENTRIES_SUFFIX)
    file = files.open(path, "write" if saved else "create")
    try:
        write_whole(file, saved * ENTRY_BYTES, [packed])
        file.sync()
    finally:
        file.close()
    if not saved:
        files.sync_directory(path.parent)


def load_entries(files: Files, segment: Path, checkpoint: Checkpoint) -> Index | None:
    """The index that a checkpoint holds of its segment, or None if it cannot be believed."""
    path = segment.with_suffix(ENTRIES_SUFFIX)
    length = checkpoint.entries * ENTRY_BYTES
    packed = b""
    if length:
        if not files.exists(path):
            return None
        file = files.open(path, "read")
        packed = file.read(0, length)
        file.close()
    if len(packed) != length or crc32c(packed) != checkpoint.entries_crc:
        return None
    return index_of_entries(checkpoint.segment, packed, list(checkpoint.slots))


def _producers(
    rows: Sequence[tuple[str, int, str, int, int, int, int]], recents: bytes
) -> list[tuple[ProducerKey, ProducerState]]:
    states = []
    position = 0
    for principal, producer_id, topic, partition, epoch, next_sequence, count in rows:
        end = position + count * RECENT_BYTES
        key = ProducerKey(principal, producer_id, topic, partition)
        states.append((key, ProducerState(epoch, next_sequence, recents[position:end])))
        position = end
    return states
