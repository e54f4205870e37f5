"""Which batches of a range are wanted, and whether they are sound: what both kinds of rows share.

Pure over what `frame_walk` yields. A batch is judged by its envelope first, so that the bodies of
others are never touched.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from log_format.envelope import Envelope
from log_format.errors import FormatError
from log_format.leaf import leaf_hash
from log_format.parts import Stamp
from spark.damage import Damage
from spark.frame_walk import Placed
from spark.leaf_tiles import LeafTiles
from spark.options import Bounds


@dataclass(frozen=True, slots=True)
class Leaves:
    """Which leaves are wanted: from `first` up to, not with, `end`; None is no bound."""

    first: int = 0
    end: int | None = None

    def holds(self, leaf: int) -> bool:
        """True for a leaf that is wanted."""
        return leaf >= self.first and (self.end is None or leaf < self.end)


@dataclass(frozen=True, slots=True)
class Batch:
    """A wanted batch. Of its records those from `begin` up to, not with, `end` are wanted."""

    envelope: Envelope
    stamp: Stamp
    body: bytes | memoryview
    position: int
    begin: int
    end: int


def select(
    found: Iterable[Placed | Damage], bounds: Bounds, leaves: Leaves
) -> Iterator[Batch | Damage]:
    """The wanted batches, and all damage: what can't be read might have been wanted."""
    for each in found:
        if isinstance(each, Damage):
            if each.envelope is None or _damage_wanted(each.envelope, bounds, leaves):
                yield each
            continue
        envelope = each.frame.envelope
        stamp = envelope.stamp
        if stamp is None or not leaves.holds(stamp.leaf):
            continue
        rows = wanted_rows(envelope, stamp, bounds)
        if rows is not None:
            yield Batch(envelope, stamp, each.frame.body, each.position, *rows)


def wanted_rows(envelope: Envelope, stamp: Stamp, bounds: Bounds) -> tuple[int, int] | None:
    """Which records of a batch lie within the bounds; None if there are none."""
    producer = envelope.producer
    if bounds.topics is not None and producer.topic not in bounds.topics:
        return None
    if bounds.since_us is not None and stamp.append_us < bounds.since_us:
        return None
    if bounds.until_us is not None and stamp.append_us >= bounds.until_us:
        return None
    begin, end = 0, producer.count
    if bounds.first_offset is not None:
        begin = max(begin, bounds.first_offset - stamp.base_offset)
    if bounds.end_offset is not None:
        end = min(end, bounds.end_offset - stamp.base_offset)
    return (begin, end) if begin < end else None


def _damage_wanted(envelope: Envelope, bounds: Bounds, leaves: Leaves) -> bool:
    stamp = envelope.stamp
    if stamp is None:
        return True
    return leaves.holds(stamp.leaf) and wanted_rows(envelope, stamp, bounds) is not None


def check_tree(
    found: Iterable[Batch | Damage], file: str, tiles: LeafTiles
) -> Iterator[Batch | Damage]:
    """Compare each batch's leaf with the tree that the log keeps beside its segments."""
    for each in found:
        if isinstance(each, Batch):
            expected = tiles.hash_of(each.stamp.leaf)
            if expected is not None and expected != leaf_hash(each.envelope.raw):
                text = f"leaf {each.stamp.leaf} is not the one that the log's tree was built from"
                length = each.envelope.frame_len
                yield Damage(file, each.position, length, "tree_leaf", text, each.envelope)
        yield each


def body_damage(batch: Batch, file: str, error: FormatError) -> Damage:
    """A batch whose envelope is sound and whose body is not."""
    length = batch.envelope.frame_len
    return Damage(file, batch.position, length, error.code, str(error), batch.envelope)
