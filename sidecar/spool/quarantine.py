"""Spooled batches that can be read from disk and are no frames: set aside with the reason.

They may be of another version, or of a sidecar with a fault; whoever knows better can look at them.
One file each. Blocking; knows no lanes and no network.
"""

import time
from base64 import b64encode
from pathlib import Path

import msgspec

from sidecar.spool.spool_files import Stored
from sidecar.spool.whole_file import replace_file


class Quarantined(msgspec.Struct, frozen=True):
    """What a file holds."""

    reason: str
    at_us: int
    written_us: int
    order: int
    frame_base64: str


class Quarantine:
    """The folder of what was set aside. Not thread-safe. As large as what the spool held."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.batches = len(list(folder.glob("*.json"))) if folder.is_dir() else 0

    def keep(self, stored: Stored, reason: str) -> Path:
        """Set a batch aside, synced; its file. OSError where the disk does not take it."""
        row = Quarantined(
            reason,
            time.time_ns() // 1000,
            stored.written_us,
            stored.order,
            b64encode(stored.frame).decode(),
        )
        # The same record again, after a crash before it was marked, gets the same name.
        path = self._folder / f"{stored.written_us}-{stored.position}.json"
        known = path.exists()
        replace_file(path, msgspec.json.encode(row))
        self.batches += not known
        return path
