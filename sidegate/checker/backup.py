"""A copy of a core's data folder that is as good as a crash: taken while the core writes.

What is copied only grows, or is replaced whole, so a copy in the right order is a state that the
core could have been killed in, and it recovers from it as from a crash. The order:

1. the control log, and the log of cursors, which must not be ahead of the messages that are copied
   after it. That one begins anew from time to time in its other folder, and is then copied again;
2. the tree with its signed checkpoints, which must not cover leaves that are copied after it;
3. the segments that are there by then, oldest first. The last of them may grow
   meanwhile; nothing behind it is copied, so that its end is the copy's end.

Indexes are left out: the core makes them anew. May import `log_format` only.
"""

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from log_format.layout import parse_segment_name

CONTROL: Final = "control"
CURSORS: Final = "cursors"
CURRENT: Final = "current"
"""The file in the folder of cursors that names the folder which counts."""
CURSOR_TRIES_MAX: Final = 10
"""The log of cursors begins anew once in hours: twice during one copy means that something else is
wrong."""
TREE: Final = "tree"


class CannotBackUpError(Exception):
    """Nothing was copied, or not all of it; the sentence says what to do."""


@dataclass(frozen=True, slots=True)
class Backup:
    """What was copied."""

    files: int
    bytes: int


def back_up(source: Path, target: Path, progress: Callable[[int], None]) -> Backup:
    """Copy the core's data folder `source` to `target`, which must not hold anything yet."""
    if not _segments(source):
        raise CannotBackUpError(f"{source} holds no log; name the core's `data` folder")
    if target.exists() and any(target.iterdir()):
        raise CannotBackUpError(f"{target} is not empty; name a new folder")
    copied: dict[Path, int] = {}
    # Each part is listed when those before it are copied: a new segment may have begun meanwhile.
    copied |= _copy_control(source, target, progress)
    for part in (_tree, _segments):
        for name in part(source):
            size = _copy(source / name, target / name, progress, may_vanish=part is _tree)
            if size is not None:
                copied[name] = size
    for folder in sorted({(target / name).parent for name in copied} | {target}):
        _sync(folder)
    return Backup(len(copied), sum(copied.values()))


def bytes_to_copy(source: Path) -> int:
    """About how many bytes a backup will have."""
    names = [*_control(source), *_cursors(source), *_tree(source), *_segments(source)]
    return sum((source / name).stat().st_size for name in names if (source / name).exists())


def _segments(folder: Path) -> list[Path]:
    try:
        names = sorted(path.name for path in folder.iterdir())
    except OSError as error:
        raise CannotBackUpError(f"{folder} can't be read: {error.strerror}") from error
    return [Path(name) for name in names if parse_segment_name(name) is not None]


def _control(source: Path) -> list[Path]:
    folder = source / CONTROL
    return [Path(CONTROL) / name for name in _segments(folder)] if folder.is_dir() else []


def _copy_control(source: Path, target: Path, progress: Callable[[int], None]) -> dict[Path, int]:
    """Copy the control log and the log of cursors."""
    copied: dict[Path, int] = {}
    for name in _control(source):
        copied[name] = _copy(source / name, target / name, progress, may_vanish=False) or 0
    for _ in range(CURSOR_TRIES_MAX):
        current = _current(source)
        if current is None:
            return copied
        sizes = {
            name: _copy(source / name, target / name, progress, may_vanish=True)
            for name in _cursors(source)
        }
        whole = {name: size for name, size in sizes.items() if size is not None}
        if len(whole) == len(sizes) and _current(source) == current:
            (target / CURSORS / CURRENT).write_text(current)
            progress(len(current))
            _sync(target / CURSORS / current)
            return copied | whole | {Path(CURSORS) / CURRENT: len(current)}
        # It began anew meanwhile: what was copied is no state that it ever had.
        shutil.rmtree(target / CURSORS)
    raise CannotBackUpError(f"{source / CURSORS} changes too often to be copied; try again later")


def _current(source: Path) -> str | None:
    path = source / CURSORS / CURRENT
    try:
        return path.read_text().strip() if path.exists() else None
    except OSError as error:
        raise CannotBackUpError(f"{path} can't be read: {error.strerror}") from error


def _cursors(source: Path) -> list[Path]:
    current = _current(source)
    if current is None:
        return []
    folder = Path(CURSORS) / current
    return [folder / name for name in _segments(source / folder)]


def _tree(source: Path) -> Iterator[Path]:
    for folder, _, names in os.walk(source / TREE):
        for name in sorted(names):
            yield (Path(folder) / name).relative_to(source)


def _copy(
    source: Path, target: Path, progress: Callable[[int], None], *, may_vanish: bool
) -> int | None:
    """Copy a file; None if it has gone, as a partial tile does when a wider one is there."""
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        with source.open("rb") as reading, target.open("xb") as writing:
            shutil.copyfileobj(reading, writing, 1024 * 1024)
            writing.flush()
            os.fsync(writing.fileno())
            size = writing.tell()
    except OSError as error:
        if may_vanish and isinstance(error, FileNotFoundError):
            return None
        raise CannotBackUpError(f"{error.filename or target}: {error.strerror}") from error
    progress(size)
    return size


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
