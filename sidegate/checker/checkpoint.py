"""How far a log was synced, by the checkpoint that the core leaves beside its segments.

The segments alone can't tell an end that a crash left from one that somebody has cut off. The
checkpoint covers synced leaves only, so a log that ends before it has lost something. Reads the
file by itself: the checker shares the format with the core, and no code.
"""

import json
import struct
from pathlib import Path
from typing import Final

from crc32c import crc32c

CHECKPOINT_NAME: Final = "checkpoint"
_MAGIC: Final = b"SGCKPT01"
_HEAD: Final = struct.Struct("<8sIIQQ")
"""magic, CRC-32C of what follows, zeros, length of the JSON, length of what comes behind it"""
_LENGTHS_AT: Final = 16


def synced_leaves(folder: Path) -> int | None:
    """The number of leaves that were synced at the last checkpoint.

    None where there is no sound checkpoint: the core then does without, and so does the check.
    """
    try:
        data = (folder / CHECKPOINT_NAME).read_bytes()
    except FileNotFoundError:
        return None
    if len(data) < _HEAD.size:
        return None
    magic, crc, _, text_len, rest_len = _HEAD.unpack_from(data)
    if magic != _MAGIC or len(data) != _HEAD.size + text_len + rest_len:
        return None
    if crc32c(data[_LENGTHS_AT:]) != crc:
        return None
    leaf = json.loads(data[_HEAD.size : _HEAD.size + text_len]).get("leaf")
    return leaf if isinstance(leaf, int) else None
