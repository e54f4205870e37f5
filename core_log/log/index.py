"""Where each batch of a segment lies: offset and time → position, per topic and partition.

An entry has a fixed size and stands at its leaf's place, so that the entries of a growing segment
are only ever appended. For each partition a run of entry numbers, in offset order, is searched by
halves. `index_file` gives a sealed segment's index its form on disk. An index is disposable: it
is rebuilt from the segment and never believed before the frame itself. Imports nothing of ours.
"""

import struct
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from mmap import mmap
from typing import Final, NamedTuple

Key = tuple[str, int]
"""A topic and a partition."""

ENTRY: Final = struct.Struct("<qqqIIII")
ENTRY_BYTES: Final = ENTRY.size
"""base offset, greatest append time so far, own append time, position, length, count, slot."""

_BODILESS: Final = 0x8000_0000
_COUNT: Final = 0x000F_FFFF
"""20 bits: the format allows a million records in a batch."""
NO_SLOT: Final = 0xFFFF_FFFF
"""The slot of a leaf that is lost: it belongs to no partition that we know of."""


class Entry(NamedTuple):
    """One batch. `greatest_us` is the greatest append time of the partition up to it."""

    base_offset: int
    greatest_us: int
    append_us: int
    position: int
    length: int
    records: int
    has_body: bool

    @property
    def end_offset(self) -> int:
        """The offset of the batch that follows."""
        return self.base_offset + self.records


class Run:
    """One partition's batches in one segment.

    Invariant: `numbers` are entry numbers in offset order, which is leaf order. `body_bytes` is
    the length of the frames that still have their bodies, `bodiless_end` the offset behind the
    last one that has not (0 if all have).
    """

    __slots__ = (
        "bodiless_end",
        "body_bytes",
        "end_offset",
        "first_offset",
        "greatest_us",
        "numbers",
        "slot",
    )

    def __init__(self, slot: int, first_offset: int) -> None:
        self.slot = slot
        self.numbers: array[int] | memoryview = array("I")
        self.first_offset = first_offset
        self.end_offset = first_offset
        self.greatest_us = 0
        self.body_bytes = 0
        self.bodiless_end = 0

    def __len__(self) -> int:
        return len(self.numbers)


class Index:
    """The index of one segment, growing or as mapped from its file.

    Invariant: entry n is the batch of leaf `first_leaf` + n. `lost` counts entries of leaves
    that damage has taken, `missing` further ones behind the last entry. One thread adds; others
    may look up at any time, because an entry is in place before its run names it.
    """

    __slots__ = ("_entries", "first_leaf", "lost", "missing", "runs")

    def __init__(
        self,
        first_leaf: int,
        entries: "bytearray | mmap | bytes | memoryview | None" = None,
        runs: dict[Key, Run] | None = None,
        lost: int = 0,
        missing: int = 0,
    ) -> None:
        self.first_leaf = first_leaf
        self._entries = bytearray() if entries is None else entries
        self.runs: dict[Key, Run] = {} if runs is None else runs
        self.lost = lost
        self.missing = missing

    def __len__(self) -> int:
        return len(self._entries) // ENTRY_BYTES

    @property
    def end_leaf(self) -> int:
        """The leaf behind the last one."""
        return self.first_leaf + len(self) + self.missing

    def add(
        self,
        key: Key,
        base_offset: int,
        count: int,
        position: int,
        length: int,
        append_us: int,
        greatest_us: int,
        has_body: bool,
    ) -> None:
        """Append the next leaf's entry."""
        run = self.runs.get(key)
        if run is None:
            run = Run(len(self.runs), base_offset)
            fresh = True
        else:
            fresh = False
        entries = self._growing()
        number = len(entries) // ENTRY_BYTES
        entries += ENTRY.pack(
            base_offset,
            greatest_us,
            append_us,
            position,
            length,
            count if has_body else count | _BODILESS,
            run.slot,
        )
        run.numbers.append(number)  # type: ignore[union-attr]
        run.end_offset = base_offset + count
        run.greatest_us = greatest_us
        if has_body:
            run.body_bytes += length
        else:
            run.bodiless_end = run.end_offset
        if fresh:
            self.runs[key] = run

    def add_lost(self, leaves: int, position: int) -> None:
        """Append entries for leaves that damage has taken, so that the others keep their place."""
        entries = self._growing()
        entries += ENTRY.pack(0, 0, 0, position, 0, 0, NO_SLOT) * leaves
        self.lost += leaves

    def _growing(self) -> bytearray:
        if not isinstance(self._entries, bytearray):
            raise TypeError("the index of a sealed segment does not grow")
        return self._entries

    def entry(self, number: int) -> Entry:
        """Entry `number`, counted from the segment's first leaf."""
        base, greatest, own, position, length, count, _slot = ENTRY.unpack_from(
            self._entries, number * ENTRY_BYTES
        )
        return Entry(base, greatest, own, position, length, count & _COUNT, not count & _BODILESS)

    def is_lost(self, number: int) -> bool:
        """True for the entry of a leaf that damage has taken."""
        slot: int = ENTRY.unpack_from(self._entries, number * ENTRY_BYTES)[6]
        return slot == NO_SLOT

    def at(self, run: Run, ordinal: int) -> Entry:
        """A run's entry by its place in the run."""
        return self.entry(run.numbers[ordinal])

    def find(self, run: Run, offset: int) -> int:
        """The place in the run of the last batch that begins at or before `offset`, or -1."""
        return bisect_right(_Bases(self, run), offset) - 1

    def find_time(self, run: Run, time_us: int) -> int:
        """The place of the first batch by which the greatest append time had reached `time_us`."""
        return bisect_left(_Greatest(self, run), time_us)

    def position_of(self, leaf: int) -> int:
        """Where `leaf` lies, for a leaf that this index holds."""
        return self.entry(leaf - self.first_leaf).position

    def in_order(self, begin: int = 0) -> Iterator[tuple[Key | None, Entry]]:
        """Every entry from number `begin` on, in leaf order; None for the key of a lost leaf."""
        keys = {run.slot: key for key, run in self.runs.items()}
        for number in range(begin, len(self)):
            slot = ENTRY.unpack_from(self._entries, number * ENTRY_BYTES)[6]
            yield keys.get(slot), self.entry(number)

    def packed(self, begin: int = 0, end: int | None = None) -> bytes:
        """The entries' own bytes, from entry `begin` to `end`: what is kept on disk."""
        stop = len(self) if end is None else end
        return bytes(self._entries[begin * ENTRY_BYTES : stop * ENTRY_BYTES])


def index_of_entries(first_leaf: int, packed: bytes, keys: list[Key]) -> Index:
    """A growing index from saved entries; `keys` names the slots in order."""
    index = Index(first_leaf, bytearray(packed))
    by_slot: dict[int, Run] = {}
    for number, fields in enumerate(ENTRY.iter_unpack(packed)):
        base, greatest, _own, _position, length, count, slot = fields
        if slot == NO_SLOT:
            index.lost += 1
            continue
        run = by_slot.get(slot)
        if run is None:
            run = by_slot[slot] = Run(slot, base)
            index.runs[keys[slot]] = run
        run.numbers.append(number)  # type: ignore[union-attr]
        run.end_offset = base + (count & _COUNT)
        run.greatest_us = greatest
        if count & _BODILESS:
            run.bodiless_end = run.end_offset
        else:
            run.body_bytes += length
    return index


class _Bases:
    """A run as a sequence of base offsets, for `bisect`."""

    __slots__ = ("_index", "_numbers")

    def __init__(self, index: Index, run: Run) -> None:
        self._index = index
        self._numbers = run.numbers

    def __len__(self) -> int:
        return len(self._numbers)

    def __getitem__(self, ordinal: int) -> int:
        number = self._numbers[ordinal]
        value: int = ENTRY.unpack_from(self._index._entries, number * ENTRY_BYTES)[0]
        return value


class _Greatest(_Bases):
    """A run as a sequence of greatest append times, for `bisect`."""

    __slots__ = ()

    def __getitem__(self, ordinal: int) -> int:
        number = self._numbers[ordinal]
        value: int = ENTRY.unpack_from(self._index._entries, number * ENTRY_BYTES)[1]
        return value
