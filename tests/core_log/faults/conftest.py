"""A disk that lies as disks do, a clock that jumps, and clients that remember what they were told.

`Disk` keeps two contents of every file: what the system's cache shows and what has reached the
medium. A crash leaves, sector by sector, any state between the last sync and the last write, in
any order, and of the names any subset of the changes since the last sync of their folder.
"""

import errno
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pytest

from core_log.log.files import File
from core_log.log.log import Log
from core_log.log.options import LogOptions
from core_log.log.results import Appended, Refused
from log_format.body import encode_body
from log_format.envelope import add_provenance, decode_envelope
from log_format.frame import Frame, decode_frame, encode_frame
from log_format.parts import Producer, Provenance

SECTOR = 512
FOLDER = Path("/log")


@dataclass
class Inode:
    """A file's bytes: `cache` as everyone reads them, `medium` as a crash finds them."""

    cache: bytearray = field(default_factory=bytearray)
    medium: bytes = b""
    pending: list[tuple[int, bytes | None]] = field(default_factory=list)
    """Writes (position, bytes) and truncations (size, None) since the last sync, in order."""

    def write(self, position: int, data: bytes) -> None:
        apply((position, data), self.cache)
        self.pending.append((position, data))

    def truncate(self, size: int) -> None:
        apply((size, None), self.cache)
        self.pending.append((size, None))

    def sync(self) -> None:
        """Only what is owed is written: pages that count as clean are not."""
        medium = bytearray(self.medium)
        for change in self.pending:
            apply(change, medium)
        self.medium = bytes(medium)
        self.pending.clear()

    def after_crash(self, random: Random) -> bytes:
        """Some state that a loss of power may leave."""
        if not self.pending:
            return self.medium
        versions = [bytearray(self.medium)]
        for change in self.pending:
            versions.append(bytearray(versions[-1]))
            apply(change, versions[-1])
        calm = random.random() < 0.3
        size = len(versions[-1] if calm else random.choice(versions))
        content = bytearray()
        for begin in range(0, size, SECTOR):
            version = versions[-1] if calm else random.choice(versions)
            sector = version[begin : begin + SECTOR]
            lost = b"\0" if random.random() < 0.9 else random.randbytes(1)
            content += sector.ljust(min(SECTOR, size - begin), lost)[: size - begin]
        return bytes(content)


def apply(change: tuple[int, bytes | None], content: bytearray) -> None:
    """Do one write or truncation."""
    position, data = change
    if data is None:
        del content[position:]
    else:
        content[len(content) : position] = bytes(max(position - len(content), 0))
        content[position : position + len(data)] = data


class Disk:
    """An implementation of `Files` in memory. Faults are set as attributes.

    `room` is how many bytes may still be written; `fails` maps an operation (`write`, `sync`,
    `read`, `sync_directory`, `rename`) to the errno of its next call; `short_writes` makes writes
    take only a part.
    """

    def __init__(self, random: Random | None = None) -> None:
        self.random = random or Random(1)
        self.names_now: dict[Path, Inode] = {}
        self.names_medium: dict[Path, Inode] = {}
        self.pending: list[Callable[[dict[Path, Inode]], None]] = []
        self.room = 1 << 40
        self.fails: dict[str, int] = {}
        self.short_writes = False
        self.locked: set[Path] = set()
        self.syncs = 0

    def trip(self, operation: str) -> None:
        """Fail if this operation was to fail."""
        number = self.fails.pop(operation, None)
        if number is not None:
            raise OSError(number, os.strerror(number))

    def crash(self) -> "Disk":
        """The disk after a loss of power."""
        survivors = dict(self.names_medium)
        keep_all = self.random.random() < 0.3
        for change in self.pending:
            if keep_all or self.random.random() < 0.5:
                change(survivors)
        after = Disk(self.random)
        for path, inode in survivors.items():
            content = inode.after_crash(self.random)
            after.names_now[path] = Inode(bytearray(content), content)
        after.names_medium = dict(after.names_now)
        after.room = self.room
        return after

    def kill(self) -> "Disk":
        """The disk after the process alone has died: the cache stays, and so does what it owes."""
        after = Disk(self.random)
        after.names_now = self.names_now
        after.names_medium = self.names_medium
        after.pending = self.pending
        after.room = self.room
        return after

    def change(self, what: Callable[[dict[Path, Inode]], None]) -> None:
        what(self.names_now)
        self.pending.append(what)

    # What `Files` asks for.

    def open(self, path: Path, mode: str) -> File:
        if mode == "create":
            if path in self.names_now:
                self.names_now[path].truncate(0)
            else:
                inode = Inode()
                self.change(lambda names: names.__setitem__(path, inode))
        elif path not in self.names_now:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        return OpenFile(self, self.names_now[path])

    def exists(self, path: Path) -> bool:
        return path in self.names_now

    def names(self, directory: Path) -> list[str]:
        return [path.name for path in self.names_now if path.parent == directory]

    def rename(self, old: Path, new: Path) -> None:
        self.trip("rename")
        inode = self.names_now[old]

        def renamed(names: dict[Path, Inode]) -> None:
            names.pop(old, None)
            names[new] = inode

        self.change(renamed)

    def remove(self, path: Path) -> None:
        if path in self.names_now:
            self.room += len(self.names_now[path].cache)
            self.change(lambda names: names.pop(path, None))

    def make_directory(self, directory: Path) -> None:
        """Folders are always there."""

    def sync_directory(self, directory: Path) -> None:
        self.trip("sync_directory")
        self.names_medium = dict(self.names_now)
        self.pending.clear()

    def free_bytes(self, directory: Path) -> int:
        return self.room

    def lock(self, path: Path) -> "HeldLock | None":
        if path in self.locked:
            return None
        self.locked.add(path)
        return HeldLock(self, path)


@dataclass
class HeldLock:
    disk: Disk
    path: Path

    def release(self) -> None:
        self.disk.locked.discard(self.path)


@dataclass
class OpenFile:
    """An open file of a Disk."""

    disk: Disk
    inode: Inode

    def size(self) -> int:
        return len(self.inode.cache)

    def read(self, position: int, length: int) -> bytes:
        self.disk.trip("read")
        return bytes(self.inode.cache[position : position + length])

    def write(self, position: int, buffers: Sequence[bytes]) -> int:
        self.disk.trip("write")
        data = b"".join(buffers)
        if self.disk.short_writes and len(data) > 1:
            data = data[: self.disk.random.randrange(1, len(data) + 1)]
        grows = max(position + len(data) - len(self.inode.cache), 0)
        if grows > self.disk.room:
            data = data[: max(len(data) - (grows - self.disk.room), 0)]
            grows = self.disk.room
        if not data:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.disk.room -= grows
        self.inode.write(position, data)
        return len(data)

    def sync(self) -> None:
        if "sync" in self.disk.fails:
            # The system drops what it could not write and calls the pages clean from now on.
            self.inode.pending.clear()
        self.disk.trip("sync")
        self.disk.syncs += 1
        self.inode.sync()

    def truncate(self, size: int) -> None:
        self.disk.room += max(len(self.inode.cache) - size, 0)
        self.inode.truncate(size)

    def map(self) -> bytes:
        return bytes(self.inode.cache)

    def close(self) -> None:
        """Nothing to give back."""


class JumpingClock:
    """A clock that moves when told to, and whose wall hands may be set either way."""

    def __init__(self) -> None:
        self.us = 1_700_000_000_000_000
        self.seconds = 0.0

    def now_us(self) -> int:
        return self.us

    def monotonic(self) -> float:
        return self.seconds

    def advance(self, seconds: float) -> None:
        self.seconds += seconds
        self.us += round(seconds * 1_000_000)


def provenance_of(principal: str) -> Provenance:
    return Provenance(
        principal=principal,
        issuer="https://issuer.example",
        client_id=principal,
        thumbprint=bytes(32),
        token_id="token",
        decision_id=bytes(16),
        policy_hash=bytes(32),
        rule="all",
        gatekeeper_id="spiffe://example/gatekeeper",
        received_us=1,
    )


def make_frame(
    values: Sequence[bytes],
    *,
    sequence: int,
    topic: str = "orders",
    partition: int = 0,
    producer_id: int = 1,
    epoch: int = 0,
    principal: str | None = "billing",
) -> Frame:
    """A frame as a gatekeeper hands it over."""
    producer = Producer(
        topic, partition, producer_id, epoch, sequence, len(values), 1, 1, bytes(32)
    )
    encoded = encode_frame(producer, encode_body([1] * len(values), values))
    if principal is not None:
        envelope = decode_envelope(encoded).raw
        encoded = add_provenance(envelope, provenance_of(principal)) + encoded[len(envelope) :]
    return decode_frame(encoded)


def values_of(frame: bytes) -> list[bytes]:
    """The messages of a stored frame, checked."""
    decoded = decode_frame(frame)
    decoded.check_hash()
    return [value or b"" for value in decoded.columns().value]


def read_all(log: Log, topic: str = "orders", partition: int = 0) -> dict[int, bytes]:
    """Every message that can be read, by its offset; fails where offsets have gaps."""
    found: dict[int, bytes] = {}
    at = log.start_offset(topic, partition)
    end = log.end_offset(topic, partition)
    while at < end:
        result = log.read(topic, partition, at, 4096)
        assert result.frames
        for frame in result.frames:
            stamp = decode_envelope(frame).stamp
            assert stamp is not None
            for number, value in enumerate(values_of(frame)):
                found[stamp.base_offset + number] = value
            assert stamp.base_offset <= at
            at = stamp.base_offset + len(values_of(frame))
        assert result.next_offset == at
    assert sorted(found) == list(range(min(found, default=end), end)), "offsets have gaps"
    return found


@dataclass(frozen=True)
class Kit:
    """What the tests of this folder build with."""

    disk: type[Disk] = Disk
    clock: type[JumpingClock] = JumpingClock
    frame: Callable[..., Frame] = make_frame
    read_all: Callable[..., dict[int, bytes]] = read_all
    values_of: Callable[[bytes], list[bytes]] = values_of
    folder: Path = FOLDER

    @staticmethod
    def options(**changes: object) -> LogOptions:
        """Small segments and no reserve, so that a test's few frames roll."""
        chosen: dict[str, object] = {
            "segment_bytes": 4096,
            "disk_reserve_bytes": 0,
            "hot_tail_bytes": 0,
            "group_bytes_max": 2048,
        }
        return LogOptions(**{**chosen, **changes})  # type: ignore[arg-type]

    def open(self, disk: Disk, clock: JumpingClock | None = None, **changes: object) -> Log:
        """The log on a disk, stepped by `turn`."""
        return Log.open(
            self.folder,
            self.options(**changes),
            clock=clock or JumpingClock(),
            files=disk,
            threads=False,
        )

    @staticmethod
    def append(log: Log, *frames: Frame) -> list[Appended | Refused]:
        """Append in one group and return the outcomes."""
        outcomes: list[Appended | Refused] = []
        log.submit(frames, outcomes.extend)
        log.turn()
        return outcomes


@pytest.fixture
def kit() -> Kit:
    """What the tests of this folder build with."""
    return Kit()


@pytest.fixture
def seed(record_property: Callable[[str, object], None]) -> int:
    """The seed of a random test: from SIDEGATE_SEED, else new; named when the test fails."""
    chosen = os.environ.get("SIDEGATE_SEED")
    number = int(chosen) if chosen else int.from_bytes(os.urandom(4), "little")
    record_property("replay", f"SIDEGATE_SEED={number}")
    print(f"replay with SIDEGATE_SEED={number}")
    return number


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how each random test that failed is played again, however little else is shown."""
    for report in terminalreporter.getreports("failed") + terminalreporter.getreports("error"):
        for name, value in report.user_properties:
            if name == "replay":
                terminalreporter.write_line(f"REPLAY {value} pytest '{report.nodeid}'")
