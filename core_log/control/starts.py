"""Where each partition begins: the one thing that retention decides and the log cannot repeat.

One small file, replaced whole, before any body is removed. Lost or damaged, it is inferred from
the envelopes without bodies: then what was dropped and not yet erased may be seen once more.
Imports the file layer only.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import orjson
from crc32c import crc32c

from core_log.log.files import Files, replace_file
from core_log.log.index import Key

STARTS_NAME: Final = "starts"
_CRC_BYTES: Final = 9


def save_starts(files: Files, directory: Path, starts: Mapping[Key, int]) -> None:
    """Write all starts that are not 0: a checksum line, then JSON."""
    rows = [(topic, partition, start) for (topic, partition), start in sorted(starts.items())]
    text = orjson.dumps(rows)
    replace_file(files, directory / STARTS_NAME, [f"{crc32c(text):08x}\n".encode(), text])


def load_starts(files: Files, directory: Path) -> dict[Key, int] | None:
    """The saved starts, or None if the file is there and cannot be believed."""
    path = directory / STARTS_NAME
    if not files.exists(path):
        return {}
    file = files.open(path, "read")
    data = file.read(0, file.size())
    file.close()
    text = data[_CRC_BYTES:]
    if data[:_CRC_BYTES] != f"{crc32c(text):08x}\n".encode():
        return None
    return {(topic, partition): start for topic, partition, start in orjson.loads(text)}
