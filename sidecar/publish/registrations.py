"""Publishers that have registered: who they are to this sidecar, kept in one small file.

Registering is for simple clients that want to learn early whether they may publish. An id is made
from topic and name, so that registering twice is registering once. Blocking, rarely written.
"""

from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Final

import msgspec

from hosting.lifecycle import StartError
from sidecar.errors import DiskRefuses
from sidecar.spool.whole_file import replace_file

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
        return _sorted(self._known)

    @property
    def full(self) -> bool:
        """Whether no further one fits."""
        return len(self._known) >= REGISTRATIONS_MAX

    def add(self, topic: str, name: str) -> tuple[Registration, bool]:
        """Register; the registration, and whether it is new."""
        row = Registration(publisher_id(topic, name), topic, name)
        if row.publisher_id in self._known:
            return row, False
        self._save({**self._known, row.publisher_id: row})
        return row, True

    def remove(self, identity: str) -> bool:
        """Forget one; whether it was there."""
        if identity not in self._known:
            return False
        self._save({name: row for name, row in self._known.items() if name != identity})
        return True

    def allows(self, identity: str | None, topic: str) -> bool:
        """Whether this id is registered for this topic."""
        row = self._known.get(identity) if identity is not None else None
        return row is not None and row.topic == topic

    def _save(self, known: dict[str, Registration]) -> None:
        """Write them all; what is known changes only when they are on disk."""
        try:
            replace_file(self._path, msgspec.json.encode(_sorted(known)))
        except OSError as error:
            raise DiskRefuses(f"{self._path} could not be written: {error}; ask again") from error
        self._known = known


def _sorted(known: Mapping[str, Registration]) -> list[Registration]:
    return sorted(known.values(), key=lambda row: (row.topic, row.name))
