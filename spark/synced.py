"""How far a log is synced, by what the core leaves beside its segments.

Batches above that position may still vanish with a loss of power, so a report does not vouch for
them. Whatever lies below must be there: a log that ends before it has lost something. Imports the
format; shares no code with the core that wrote the files.
"""

import json
import struct
from pathlib import Path
from typing import Final

from crc32c import crc32c

from log_format.checkpoint_note import parse_tree_head
from log_format.errors import FormatError
from log_format.note import parse_note
from spark.leaf_tiles import TREE_FOLDER

CHECKPOINT_NAME: Final = "checkpoint"
"""The engine's own below the log's folder; the signed one below the tree's."""

_MAGIC: Final = b"SGCKPT01"
_HEAD: Final = struct.Struct("<8sIIQQ")
"""magic, CRC-32C of what follows, zeros, length of the JSON, length of what comes behind it"""
_LENGTHS_AT: Final = 16


def synced_leaves(folder: Path) -> int:
    """Leaves that are known to be synced; 0 where nothing tells."""
    return max(_engine_leaves(folder), signed_leaves(folder))


def signed_leaves(folder: Path) -> int:
    """The size of the newest checkpoint that the core has signed; 0 where there is none."""
    try:
        note = parse_note((folder / TREE_FOLDER / CHECKPOINT_NAME).read_bytes())
        return parse_tree_head(note.text).size
    except (OSError, FormatError):
        return 0


def _engine_leaves(folder: Path) -> int:
    try:
        data = (folder / CHECKPOINT_NAME).read_bytes()
    except OSError:
        return 0
    if len(data) < _HEAD.size:
        return 0
    magic, crc, _, text_len, rest_len = _HEAD.unpack_from(data)
    if magic != _MAGIC or len(data) != _HEAD.size + text_len + rest_len:
        return 0
    if crc32c(data[_LENGTHS_AT:]) != crc:
        return 0
    leaf = json.loads(data[_HEAD.size : _HEAD.size + text_len]).get("leaf")
    return leaf if isinstance(leaf, int) else 0
