"""The file layer: every byte that the log keeps passes through here.

A small protocol, so that tests can put a disk under the log that loses, tears and reorders what
was not synced. May import the standard library only; knows nothing of frames or segments.
"""

import errno
import fcntl
import mmap
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal, Protocol

Mode = Literal["read", "write", "create"]
"""`read` and `write` need the file to exist; `create` makes it new, or empties an old one."""

IOV_MAX: Final = os.sysconf("SC_IOV_MAX")
"""Buffers that one `writev` takes: the system's own limit (1024 on Linux and macOS)."""

TEMPORARY_SUFFIX: Final = ".tmp"
"""Of a file that is being written: it means nothing, and opening a log removes it."""

_FLAGS: Final = {
    "read": os.O_RDONLY,
    "write": os.O_RDWR,
    "create": os.O_RDWR | os.O_CREAT | os.O_TRUNC,
}
_FILE_MODE: Final = 0o600
_DIRECTORY_MODE: Final = 0o700


class File(Protocol):
    """An open file. Reads may run in any thread; writes belong to one thread at a time."""

    def size(self) -> int:
        """Its length in bytes."""

    def read(self, position: int, length: int) -> bytes:
        """Up to `length` bytes at `position`; fewer only at the file's end."""

    def write(self, position: int, buffers: Sequence[bytes]) -> int:
        """Write at most IOV_MAX buffers at `position`; returns how many bytes were taken."""

    def sync(self) -> None:
        """Return once everything written so far will survive a loss of power."""

    def truncate(self, size: int) -> None:
        """Cut the file to `size` bytes."""

    def map(self) -> mmap.mmap | bytes:
        """The whole file as it is now, read-only and without a copy where that can be had."""

    def close(self) -> None:
        """Give the descriptor back. A file that is merely dropped gives it back as well."""


class Lock(Protocol):
    """A held lock."""

    def release(self) -> None:
        """Let others have it."""


class Files(Protocol):
    """A file system, as little of it as the log needs."""

    def open(self, path: Path, mode: Mode) -> File:
        """Open one file."""

    def exists(self, path: Path) -> bool:
        """True if there is a file of this name."""

    def names(self, directory: Path) -> list[str]:
        """The names in a directory, in no order."""

    def rename(self, old: Path, new: Path) -> None:
        """Put `old` in the place of `new`, atomically."""

    def remove(self, path: Path) -> None:
        """Remove a file. Who has it open may go on reading it."""

    def make_directory(self, directory: Path) -> None:
        """Make a directory and those above it; one that is there is fine."""

    def sync_directory(self, directory: Path) -> None:
        """Return once names made, changed and removed here will survive a loss of power."""

    def free_bytes(self, directory: Path) -> int:
        """Bytes that an ordinary user may still write to this file system."""

    def lock(self, path: Path) -> Lock | None:
        """Take an exclusive lock, or return None at once if another process holds it."""


class OsFile:
    """A file of the operating system.

    The descriptor is closed when the last reference goes, never under a reader: a reader that
    holds this object may finish on a file that the cleaner has already replaced.
    """

    __slots__ = ("_fd",)

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def size(self) -> int:
        """Its length in bytes."""
        return os.fstat(self._fd).st_size

    def read(self, position: int, length: int) -> bytes:
        """`pread`, repeated until the length or the end is reached."""
        data = os.pread(self._fd, length, position)
        if len(data) == length or not data:
            return data
        pieces = [data]
        done = len(data)
        while done < length and (data := os.pread(self._fd, length - done, position + done)):
            pieces.append(data)
            done += len(data)
        return b"".join(pieces)

    def write(self, position: int, buffers: Sequence[bytes]) -> int:
        """`pwritev`; where that is missing, `writev` at a position that only writers use."""
        if sys.platform == "linux":
            taken = os.pwritev(self._fd, buffers, position)
        else:
            os.lseek(self._fd, position, os.SEEK_SET)
            taken = os.writev(self._fd, buffers)
        return taken

    def sync(self) -> None:
        """`fdatasync`, or what truly reaches the medium where that does not."""
        if sys.platform == "darwin":
            # fsync(2) of macOS: "the disk drive may also re-order the data"; this flushes it.
            fcntl.fcntl(self._fd, fcntl.F_FULLFSYNC)
        else:
            os.fdatasync(self._fd)

    def truncate(self, size: int) -> None:
        """Cut to `size` bytes."""
        os.ftruncate(self._fd, size)

    def map(self) -> mmap.mmap | bytes:
        """A shared mapping: its pages are the system's cache, not this process's own memory."""
        if self.size() == 0:
            return b""
        return mmap.mmap(self._fd, 0, access=mmap.ACCESS_READ)

    def close(self) -> None:
        """Close the descriptor, once."""
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            os.close(fd)

    def __del__(self) -> None:
        self.close()


class OsLock:
    """A lock that the system releases when the process ends, however it ends."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def release(self) -> None:
        """Unlock by closing."""
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            os.close(fd)


class OsFiles:
    """The operating system's files. Stateless, so any thread may use it."""

    def open(self, path: Path, mode: Mode) -> OsFile:
        """Open one file, private to its owner."""
        return OsFile(os.open(path, _FLAGS[mode] | os.O_CLOEXEC, _FILE_MODE))

    def exists(self, path: Path) -> bool:
        """True if there is a file of this name."""
        return path.exists()

    def names(self, directory: Path) -> list[str]:
        """The names in a directory."""
        return os.listdir(directory)  # noqa: PTH208 - names are wanted, not paths

    def rename(self, old: Path, new: Path) -> None:
        """`rename(2)`."""
        old.replace(new)

    def remove(self, path: Path) -> None:
        """`unlink(2)`; a file that is already gone is fine."""
        path.unlink(missing_ok=True)

    def make_directory(self, directory: Path) -> None:
        """`mkdir -p`, private to its owner, and durable: a log must not vanish with its folder."""
        missing = [each for each in (directory, *directory.parents) if not each.exists()]
        for each in reversed(missing):
            each.mkdir(mode=_DIRECTORY_MODE, exist_ok=True)
            self.sync_directory(each.parent)

    def sync_directory(self, directory: Path) -> None:
        """`fsync` of the directory itself."""
        fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def free_bytes(self, directory: Path) -> int:
        """`statvfs`: blocks that are free for ordinary users."""
        room = os.statvfs(directory)
        return room.f_bavail * room.f_frsize

    def lock(self, path: Path) -> OsLock | None:
        """`flock`, without waiting."""
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _FILE_MODE)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(fd)
            if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
                return None
            raise
        return OsLock(fd)


def write_whole(file: File, position: int, buffers: Sequence[bytes]) -> int:
    """Write all buffers at `position`, whatever the system takes at a time; returns the end.

    Raises OSError where the file ends up with some of them: the caller knows what to cut.
    """
    for begin in range(0, len(buffers), IOV_MAX):
        pending = list(buffers[begin : begin + IOV_MAX])
        while pending:
            taken = file.write(position, pending)
            if taken <= 0:
                raise OSError(errno.EIO, "a write took no bytes")
            position += taken
            pending = _rest(pending, taken)
    return position


def _rest(buffers: list[bytes], taken: int) -> list[bytes]:
    for number, buffer in enumerate(buffers):
        if taken < len(buffer):
            return [buffer[taken:], *buffers[number + 1 :]]
        taken -= len(buffer)
    return []


def replace_file(files: Files, path: Path, content: Sequence[bytes]) -> None:
    """Write a file so that a crash at any moment leaves the old content or the new, whole."""
    temporary = path.with_name(path.name + TEMPORARY_SUFFIX)
    file = files.open(temporary, "create")
    try:
        write_whole(file, 0, content)
        file.sync()
    finally:
        file.close()
    files.rename(temporary, path)
    files.sync_directory(path.parent)
