"""Small files that are written whole: the old one or the new one is there, never half of either."""

import contextlib
import os
from pathlib import Path


def replace_file(path: Path, data: bytes) -> None:
    """Write `data` to `path`, synced, for its owner only. OSError, and `path` is as it was."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    fresh = path.with_suffix(".new")
    try:
        with open(fresh, "wb", opener=_private) as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    except OSError:
        # What is left of it would take room on a disk that has none.
        with contextlib.suppress(OSError):
            fresh.unlink(missing_ok=True)
        raise
    fresh.replace(path)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make a new or removed file's name durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
