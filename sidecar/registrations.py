"""Publishers that have registered: who they are to this sidecar, kept in one small file.

Registering is for simple clients that want to learn early whether they may publish. An id is made
from topic and name, so that registering twice is registering once. Blocking, rarely written.
"""

import os
from hashlib import sha256
from pathlib import Path
from typing import Final

import msgspec

from hosting.lifecycle import StartError
from sidecar.spool_files import sync_folder

NAME_BYTES_MAX: Final = 128
"""A name is for people who look at the list."""
REGISTRATIONS_MAX: Final = 10_000
"""One file holds them all and is written whole."""


class Registration(msgspec.Struct, frozen=True):
    """One publisher of one topic."""

    publisher_id: str
    topic: str
    name: str


def publisher_id(topic: str, name: str) -> str:
    """The same for the same topic and name, on every sidecar."""
    return "pub-" + sha256(f"{topic}\0{name}".encode()).hexdigest()[:24]


class Registrations:
    """What is registered. Belongs to the event loop. File: `registrations.json`."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "registrations.json"
        self._known: dict[str, Registration] = {}

    def open(self) -> None:
        """Read the file, or StartError where it is damaged."""
        if not self._path.exists():
            return
        try:
            rows = msgspec.json.decode(self._path.read_bytes(), type=list[Registration])
        except msgspec.MsgspecError as error:
            raise StartError(
                f"{self._path} is damaged ({error}); remove it; publishers then register again"
            ) from error
        self._known = {row.publisher_id: row for row in rows}

    def list(self) -> list[Registration]:
        """All of them, by topic and name."""
        return sorted(self._known.values(), key=lambda row: (row.topic, row.name))

    @property
    def full(self) -> bool:
        """Whether no further one fits."""
        return len(self._known) >= REGISTRATIONS_MAX

    def add(self, topic: str, name: str) -> tuple[Registration, bool]:
        """Register; the registration, and whether it is new."""
        row = Registration(publisher_id(topic, name), topic, name)
        if row.publisher_id in self._known:
            return row, False
        self._known[row.publisher_id] = row
        self._save()
        return row, True

    def remove(self, identity: str) -> bool:
        """Forget one; whether it was there."""
        if self._known.pop(identity, None) is None:
            return False
        self._save()
        return True

    def allows(self, identity: str | None, topic: str) -> bool:
        """Whether this id is registered for this topic."""
        row = self._known.get(identity) if identity is not None else None
        return row is not None and row.topic == topic

    def _save(self) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        fresh = self._path.with_suffix(".new")
        with fresh.open("wb") as file:
            file.write(msgspec.json.encode(self.list()))
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(self._path)
        sync_folder(self._path.parent)
