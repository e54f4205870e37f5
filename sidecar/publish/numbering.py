"""Places in a producer's sequence: which owner and number the next batch of a lane gets.

Pure. Numbers of one owner are contiguous. Where a batch will never be in the log, everything behind
it begins a new epoch: batches in memory at once, those on disk when they are read, and whatever is
closed later in an epoch newer still, so that epochs rise along the lane.
"""

import itertools
from collections.abc import Sequence
from typing import Protocol

from log_format.sequence import sequence_after
from sidecar.publish.batch import Batch
from sidecar.publish.producer import ProducerEpoch


class Epochs(Protocol):
    """Where a lane's owners come from; see `producer.py`."""

    @property
    def current(self) -> ProducerEpoch:
        """The epoch that was begun last."""

    def raise_epoch(self) -> ProducerEpoch:
        """A fresh epoch, above all that were handed out for its producer id."""

    def replace_id(self) -> ProducerEpoch:
        """A fresh epoch of a new producer id."""


class Orders(Protocol):
    """Where a batch's place among all batches of all lanes comes from."""

    def next_order(self) -> int:
        """A number above all that were given before, in this run and in those before it."""


class CountedOrders:
    """Orders from 0 on."""

    def __init__(self) -> None:
        self._count = itertools.count()

    def next_order(self) -> int:
        """The next number."""
        return next(self._count)


class Numbering:
    """The numbers of one lane. Belongs to the event loop."""

    __slots__ = ("_epochs", "_mend_before", "_mend_next", "_mend_to", "_next", "_orders", "_owner")

    def __init__(self, epochs: Epochs, orders: Orders) -> None:
        self._epochs = epochs
        self._orders = orders
        self._owner: ProducerEpoch | None = epochs.current
        self._next = 0
        self._mend_to: ProducerEpoch | None = None
        self._mend_next = 0
        self._mend_before = -1

    def next_place(self) -> tuple[ProducerEpoch, int, int]:
        """Owner, first sequence and order of the batch that is closed now."""
        if self._owner is None:
            self._owner, self._next = self._epochs.raise_epoch(), 0
        return self._owner, self._next, self._orders.next_order()

    def used(self, count: int) -> None:
        """A batch of `count` records has taken the place."""
        self._next = sequence_after(self._next, count)

    def begin_anew(self) -> None:
        """What was closed last will not be sent: the next batch begins a new epoch."""
        self._owner = None

    def replace_id(self) -> None:
        """Another process uses this producer's id: begin with another one."""
        self._epochs.replace_id()

    def mend(self, follow: Sequence[Batch], *, more_behind: bool) -> None:
        """Something before `follow` will never be in the log: they begin a new epoch.

        `more_behind` where further batches come between these and those that are closed later.
        """
        self._mend_to, self._mend_next = self._epochs.raise_epoch(), 0
        for batch in follow:
            self._mend_next = batch.restamp(self._mend_to, self._mend_next)
        if more_behind:
            self._mend_before = self._orders.next_order()
            self._owner = None
        else:
            self._owner, self._next = self._mend_to, self._mend_next

    def mend_one(self, batch: Batch) -> None:
        """Restamp a batch that comes from behind a gap, if it was closed before the gap was."""
        if batch.order < self._mend_before and self._mend_to is not None:
            self._mend_next = batch.restamp(self._mend_to, self._mend_next)
