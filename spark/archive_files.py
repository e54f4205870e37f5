"""The archive: sealed segments as Parquet files, each with a footer that says what it holds.

A file holds the messages of one segment, sorted by topic, partition and offset, compressed with
zstd. It is named by its leaves, so that a listing shows what is there and what is not. Imports the
format and Arrow; knows nothing of Spark.
"""

import json
import os
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final

import pyarrow.parquet as pq

from log_format.leaf import leaf_hash
from log_format.tree import Frontier
from spark.columns import MESSAGES, arrow_schema
from spark.damage import Damage, DamagedLog
from spark.frame_walk import Range, walk
from spark.log_folder import Segment
from spark.message_rows import message_rows
from spark.options import Bounds
from spark.selection import Batch, Leaves, select

FOOTER: Final = b"sidegate.archive"
ROWS_PER_GROUP: Final = 256 * 1024
"""Rows of a row group: some tens of megabytes, which is what Spark gives to one task."""
_NAME: Final = re.compile(r"([0-9]{20})-([0-9]{20})\.parquet")
_HASH_BYTES: Final = 1024 * 1024


class BadArchive(Exception):
    """A file in the archive that is not what its name says."""


@dataclass(frozen=True, slots=True)
class Footer:
    """What a file says about itself. `offsets` has first and last of each topic and partition."""

    log_id: str
    first_leaf: int
    end_leaf: int
    tree_root: str
    segment_sha256: str
    rewritten: int
    messages: int
    offsets: dict[str, tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Archived:
    """A file of the archive."""

    path: Path
    first_leaf: int
    end_leaf: int


@dataclass(frozen=True, slots=True)
class Draft:
    """A file that is complete and synced, and not in the archive until it is kept."""

    written: Path
    path: Path
    footer: Footer

    def keep(self) -> None:
        """Give it its name."""
        self.written.replace(self.path)


def archive_name(first_leaf: int, end_leaf: int) -> str:
    """A file's name; `end_leaf` is the first leaf that is not in it."""
    return f"{first_leaf:020d}-{end_leaf:020d}.parquet"


def archived_files(folder: Path) -> list[Archived]:
    """The files that follow on from each other from leaf 0 on; the rest has a gap before it."""
    found = {}
    for path in folder.iterdir() if folder.is_dir() else ():
        if match := _NAME.fullmatch(path.name):
            found[int(match[1])] = Archived(path, int(match[1]), int(match[2]))
    chain: list[Archived] = []
    end = 0
    while end in found and found[end].end_leaf > end:
        chain.append(found[end])
        end = found[end].end_leaf
    return chain


def read_footer(path: Path) -> Footer:
    """What a file says about itself, held against its name."""
    metadata = pq.read_schema(path).metadata or {}
    match = _NAME.fullmatch(path.name)
    try:
        given = json.loads(metadata[FOOTER])
        footer = Footer(
            **{**given, "offsets": {key: tuple(ends) for key, ends in given["offsets"].items()}}
        )
    except (KeyError, TypeError, ValueError) as error:
        raise BadArchive(f"{path.name} is no file of an archive: {error}") from error
    if match is None or (footer.first_leaf, footer.end_leaf) != (int(match[1]), int(match[2])):
        raise BadArchive(
            f"{path.name} holds the leaves {footer.first_leaf} to {footer.end_leaf - 1}"
        )
    return footer


def write_archive(segment: Segment, end_leaf: int, folder: Path) -> Draft:
    """Write the file of one sealed segment, whose last leaf is `end_leaf` - 1.

    Raises DamagedLog where the segment is not whole: what is damaged is not archived as if it were
    sound. A draft of an earlier attempt is written over.
    """
    batches = list(_batches(segment, end_leaf))
    footer = _footer(segment, end_leaf, batches)
    batches.sort(key=lambda each: (each.envelope.producer.topic, each.envelope.producer.partition,
                                   each.stamp.base_offset))  # fmt: skip
    schema = arrow_schema(MESSAGES).with_metadata({FOOTER: json.dumps(asdict(footer)).encode()})
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / archive_name(segment.first_leaf, end_leaf)
    draft = path.with_suffix(".new")
    with pq.ParquetWriter(draft, schema, compression="zstd") as writer:
        for rows in message_rows(
            iter(batches), segment.path.name, MESSAGES, verify=True, on_damage=_refuse
        ):
            writer.write_batch(rows.replace_schema_metadata(schema.metadata), ROWS_PER_GROUP)
    with draft.open("rb") as file:
        os.fsync(file.fileno())
    return Draft(draft, path, footer)


def file_sha256(path: Path) -> str:
    """A file's own hash."""
    digest = sha256()
    with path.open("rb") as file:
        while chunk := file.read(_HASH_BYTES):
            digest.update(chunk)
    return digest.hexdigest()


def _batches(segment: Segment, end_leaf: int) -> Iterator[Batch]:
    piece = Range(
        str(segment.path), segment.path.name, 0, segment.size, segment.rewritten,
        segment.first_leaf, end_leaf, last=False,
    )  # fmt: skip
    expected = segment.first_leaf
    for found in select(walk(piece), Bounds(), Leaves()):
        if isinstance(found, Damage):
            raise DamagedLog(found)
        if found.stamp.leaf != expected:
            text = f"leaf {found.stamp.leaf} stands where leaf {expected} belongs"
            raise DamagedLog(Damage(segment.path.name, found.position, 0, "leaf_gap", text))
        expected += 1
        yield found
    if expected != end_leaf:
        text = f"ends before leaf {expected}, and the next segment begins with leaf {end_leaf}"
        raise DamagedLog(Damage(segment.path.name, segment.size, 0, "leaf_gap", text))


def _footer(segment: Segment, end_leaf: int, batches: list[Batch]) -> Footer:
    frontier = Frontier()
    frontier.extend(leaf_hash(each.envelope.raw) for each in batches)
    offsets: dict[str, tuple[int, int]] = {}
    for each in batches:
        producer, base = each.envelope.producer, each.stamp.base_offset
        key = f"{producer.topic}/{producer.partition}"
        first, last = offsets.get(key, (base, base))
        offsets[key] = min(first, base), max(last, base + producer.count - 1)
    return Footer(
        (segment.log_id or b"").hex(),
        segment.first_leaf,
        end_leaf,
        frontier.root().hex(),
        file_sha256(segment.path),
        segment.rewritten or 0,
        sum(each.envelope.producer.count for each in batches),
        offsets,
    )


def _refuse(damage: Damage) -> None:
    raise DamagedLog(damage)
