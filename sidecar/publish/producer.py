"""The sidecar's identity as a producer: a random id, and epochs that never come twice.

An epoch is used up at each start and at each permanent rejection. They are reserved on disk a
block at a time, so that neither costs a sync, and a kill -9 can at worst skip some. Where the
epochs run out, or the disk takes no reservation, a new random id begins at epoch 0. May import
`log_format`; knows no network.
"""

import logging
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

import msgspec

from hosting.lifecycle import StartError
from log_format.sequence import EPOCH_MAX
from sidecar.spool.whole_file import replace_file

log = logging.getLogger("sidegate.sidecar")

EPOCHS_RESERVED: Final = 64
"""One sync for so many epochs; so many starts are possible before a new id is 32767 / 64."""
_ID_BITS: Final = 63
"""The format's producer id is an int64 that is never negative."""


class _Saved(msgspec.Struct, frozen=True):
    """What the file holds."""

    producer_id: Annotated[int, msgspec.Meta(ge=0, le=2**_ID_BITS - 1)]
    next_epoch: Annotated[int, msgspec.Meta(ge=0, le=EPOCH_MAX + 1)]


@dataclass(frozen=True, slots=True)
class ProducerEpoch:
    """What a run of contiguous sequences belongs to."""

    producer_id: int
    epoch: int


class ProducerState:
    """Hands out epochs in rising order, each only once over all runs of this sidecar.

    File: `producer.json` with the id and the first epoch that was never reserved. It is replaced
    whole and synced before any epoch of the new block is used. Belongs to the event loop.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._producer_id, self._next = self._load()
        self._reserved = self._next
        self._current = self.raise_epoch()

    @property
    def current(self) -> ProducerEpoch:
        """The epoch that was begun last."""
        return self._current

    def raise_epoch(self) -> ProducerEpoch:
        """A fresh epoch, above all that were handed out for its producer id."""
        if self._next > EPOCH_MAX:
            self._begin()
        if self._next >= self._reserved:
            self._reserve()
        self._current = ProducerEpoch(self._producer_id, self._next)
        self._next += 1
        return self._current

    def replace_id(self) -> ProducerEpoch:
        """A new producer: another process has used this one's id (a copied data folder)."""
        self._begin()
        return self.raise_epoch()

    def _begin(self) -> None:
        self._producer_id = secrets.randbits(_ID_BITS)
        self._next = 0
        self._reserved = 0

    def _reserve(self) -> None:
        self._reserved = min(self._next + EPOCHS_RESERVED, EPOCH_MAX + 1)
        try:
            self._save()
        except OSError as error:
            # An id that no file knows belongs to this run alone: its epochs need no reservation.
            fields = {"file": str(self._path), "error": str(error)}
            log.warning("epochs could not be reserved; a new id is used", extra={"fields": fields})
            self._begin()
            self._reserved = EPOCH_MAX + 1

    def _load(self) -> tuple[int, int]:
        try:
            text = self._path.read_bytes()
        except FileNotFoundError:
            return secrets.randbits(_ID_BITS), 0
        try:
            state = msgspec.json.decode(text, type=_Saved)
        except msgspec.MsgspecError as error:
            raise StartError(
                f"{self._path} is damaged ({error}); remove it to begin with a new producer id"
            ) from error
        return state.producer_id, state.next_epoch

    def _save(self) -> None:
        saved = _Saved(self._producer_id, self._reserved)
        replace_file(self._path, msgspec.json.encode(saved))
