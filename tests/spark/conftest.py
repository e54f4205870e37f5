"""One Spark session for all tests, and a writer of logs that shares only the format with them."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from pyspark.sql import SparkSession

from log_format.body import encode_body
from log_format.checkpoint_note import TreeHead, log_origin, sign_tree_head
from log_format.envelope import Codec, add_stamp, decode_envelope, seal_provenance, without_body
from log_format.frame import body_padding, decode_frame, encode_frame
from log_format.layout import (
    SEGMENT_HEAD_BYTES,
    SegmentHead,
    encode_segment_head,
    segment_name,
)
from log_format.leaf import leaf_hash
from log_format.note import Note, SignatureType, VerifierKey
from log_format.parts import Producer, Provenance, Stamp
from log_format.sequence import sequence_after
from log_format.tiles import tiles_of
from log_format.tree import Frontier, nodes_of
from spark.batch_rows import batch_rows
from spark.columns import arrow_schema, columns_of
from spark.frame_walk import walk
from spark.log_folder import plan
from spark.options import Bounds
from spark.selection import Leaves, select
from spark.session import make_session

START_US = 1_767_225_600_000_000
"""2026-01-01T00:00:00Z, a Thursday."""
HOUR_US = 3_600_000_000


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    session = make_session(
        cores="2",
        memory="768m",
        quick=True,
        scratch=tmp_path_factory.mktemp("spark"),
        settings={"spark.sql.shuffle.partitions": "1", "spark.default.parallelism": "2"},
    )
    yield session
    session.stop()


class LogWriter:
    """Writes a log as the core would: leaves, offsets and sequences in order, all of it signed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.log_id = bytes(range(16))
        self.gatekeeper_key = Ed25519PrivateKey.from_private_bytes(b"g" * 32)
        self.core_key = Ed25519PrivateKey.from_private_bytes(b"c" * 32)
        self.now_us = START_US
        self.leaves: list[bytes] = []
        self.positions: list[tuple[Path, int, int]] = []
        self._offsets: dict[tuple[str, int], int] = {}
        self._sequences: dict[tuple[str, int, str, int], int] = {}
        self._file: Path | None = None

    @property
    def gatekeeper_vkey(self) -> str:
        public = self.gatekeeper_key.public_key().public_bytes_raw()
        return str(VerifierKey("gk-1", SignatureType.ED25519, public))

    @property
    def core_vkey(self) -> VerifierKey:
        public = self.core_key.public_key().public_bytes_raw()
        return VerifierKey(log_origin(self.log_id), SignatureType.ED25519, public)

    def roll(self) -> Path:
        """Begin another segment."""
        self._file = self.folder / segment_name(len(self.leaves))
        head = SegmentHead(self.log_id, len(self.leaves), 0, self.now_us)
        self._file.write_bytes(encode_segment_head(head))
        return self._file

    def add(
        self,
        topic: str,
        values: Sequence[bytes] = (b"{}",),
        *,
        partition: int = 0,
        principal: str | None = "billing",
        producer_id: int = 7,
        codec: Codec = Codec.NONE,
        removed: bool = False,
        encrypted: bool = False,
        offset: int | None = None,
        signed: bool = True,
        provenance: dict[str, Any] | None = None,
        **columns: Any,
    ) -> int:
        """Append one batch; its leaf."""
        path = self._file or self.roll()
        base = self._offsets.get((topic, partition), 0) if offset is None else offset
        self._offsets[topic, partition] = base + len(values)
        lane = (principal or "", producer_id, topic, partition)
        sequence = self._sequences.get(lane, 0)
        self._sequences[lane] = sequence_after(sequence, len(values))
        times = columns.pop("event_us", [self.now_us + n for n in range(len(values))])
        body = encode_body(times, values, **columns)
        part = Producer(
            topic, partition, producer_id, 0, sequence, len(values), times[0], max(times), bytes(32)
        )
        frame = decode_frame(encode_frame(part, body, codec=codec))
        raw = frame.envelope.raw
        if encrypted:
            from log_format.envelope import new_envelope

            raw = new_envelope(
                frame.envelope.producer,
                body_len=frame.envelope.body_len,
                uncompressed_len=frame.envelope.uncompressed_len,
                encrypted=True,
            )
        if principal is not None:
            given = Provenance(
                principal, "https://idp.example", principal, b"\x11" * 32, "t-1", b"\x22" * 16,
                b"\x33" * 32, f'topics."{topic}".publish', "gk-1", self.now_us,
            )  # fmt: skip
            given = replace(given, **(provenance or {}))
            sign = self.gatekeeper_key.sign if signed else (lambda _: bytes(64))
            raw = seal_provenance(raw, given, sign)
        leaf = len(self.leaves)
        raw = add_stamp(raw, Stamp(leaf, base, self.now_us, leaf))
        self.leaves.append(leaf_hash(raw))
        self.now_us += 1_000_000
        size = path.stat().st_size
        written = raw + bytes(frame.body) + body_padding(len(frame.body))
        if removed:
            written = without_body(raw)
        with path.open("ab") as file:
            file.write(written)
        self.positions.append((path, size, len(written)))
        return leaf

    def damage(self, leaf: int, at: int = -8, flip: int = 0x01) -> None:
        """Change one byte of a batch; by default one of its body's last ones."""
        path, position, length = self.positions[leaf]
        data = bytearray(path.read_bytes())
        data[position + (at if at >= 0 else length + at)] ^= flip
        path.write_bytes(data)

    def save_tree(self, *, size: int | None = None) -> Note:
        """The tiles and the signed checkpoint, as the core keeps them."""
        size = len(self.leaves) if size is None else size
        node = nodes_of(self.leaves[:size])
        tree = self.folder / "tree"
        for tile in tiles_of(size):
            path = tree / tile.path
            path.parent.mkdir(parents=True, exist_ok=True)
            first = tile.index * 256
            hashes = [node(tile.level * 8, first + each) for each in range(tile.width)]
            path.write_bytes(b"".join(hashes))
        note = self.checkpoint(size)
        tree.mkdir(exist_ok=True)
        (tree / "checkpoint").write_text(str(note))
        return note

    def checkpoint(self, size: int | None = None) -> Note:
        """A checkpoint of the first `size` leaves, signed by the core."""
        frontier = Frontier()
        frontier.extend(self.leaves[: len(self.leaves) if size is None else size])
        head = TreeHead(log_origin(self.log_id), frontier.size, frontier.root())
        return sign_tree_head(head, self.core_vkey, self.core_key.sign)


@pytest.fixture
def log(tmp_path: Path) -> LogWriter:
    return LogWriter(tmp_path / "log")


@pytest.fixture
def read(spark: SparkSession, log: LogWriter) -> Any:
    """Reads `log` with options."""

    def load(**options: Any) -> Any:
        reader = spark.read.format("sidegate")
        for name, value in options.items():
            reader = reader.option(name.rstrip("_"), str(value))
        return reader.load(str(log.folder))

    return load


@pytest.fixture
def batches(spark: SparkSession, log: LogWriter) -> Any:
    """The log's batches as a DataFrame, read without a task of Spark's: checks need no source."""

    def load() -> Any:
        columns = columns_of("batches", None)
        found = [
            batch
            for piece in plan(log.folder, split_bytes=1 << 30)
            for batch in batch_rows(
                select(walk(piece), Bounds(), Leaves()), piece.file, columns, verify=True
            )
        ]
        return spark.createDataFrame(pa.Table.from_batches(found, arrow_schema(columns)))

    return load


__all__ = ["HOUR_US", "SEGMENT_HEAD_BYTES", "START_US", "LogWriter", "decode_envelope", "time"]
