"""Reads the archive's files as the log's own rows, so that old and new are one DataFrame."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql.datasource import InputPartition

from spark.archive_files import BadArchive, archived_files, read_footer
from spark.columns import TIMESTAMP, Column, arrow_schema
from spark.options import Bounds, Options

ROWS_MAX: Final = 16_384
"""Rows in a record batch, as those of the live log."""


@dataclass(frozen=True)
class ArchivePartition(InputPartition):
    """One file of the archive."""

    path: str


def archive_partitions(options: Options, log_id: bytes) -> tuple[list[InputPartition], int]:
    """The files to read, and the leaf from which on the live log is read instead."""
    if options.archive is None:
        return [], 0
    if options.rows != "messages":
        raise BadArchive("archive: it holds messages; leave rows=batches out, or the archive")
    files = archived_files(Path(options.archive))
    for each in files:
        footer = read_footer(each.path)
        if footer.log_id != log_id.hex():
            raise BadArchive(f"{each.path.name} is of the log {footer.log_id}, not of this one")
    end = files[-1].end_leaf if files else 0
    return [ArchivePartition(str(each.path)) for each in files], end


def read_archive(path: str, columns: Sequence[Column], bounds: Bounds) -> Iterator[Any]:
    """Record batches with exactly `columns`, of the messages within the bounds."""
    schema = arrow_schema(columns)
    names = [column.name for column in columns]
    needed = sorted({*names, "topic", "offset", "append_time"})
    for rows in pq.ParquetFile(path).iter_batches(batch_size=ROWS_MAX, columns=needed):
        mask = _mask(rows, bounds)
        kept = rows if mask is None else rows.filter(mask)
        if len(kept):
            arrays = [kept.column(name) for name in names]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _mask(rows: Any, bounds: Bounds) -> Any:
    conditions = []
    if bounds.topics is not None:
        topics = pa.array(sorted(bounds.topics))
        conditions.append(pc.is_in(rows.column("topic"), value_set=topics))
    if bounds.first_offset is not None:
        conditions.append(pc.greater_equal(rows.column("offset"), bounds.first_offset))
    if bounds.end_offset is not None:
        conditions.append(pc.less(rows.column("offset"), bounds.end_offset))
    if bounds.since_us is not None:
        since = pa.scalar(bounds.since_us, TIMESTAMP)
        conditions.append(pc.greater_equal(rows.column("append_time"), since))
    if bounds.until_us is not None:
        until = pa.scalar(bounds.until_us, TIMESTAMP)
        conditions.append(pc.less(rows.column("append_time"), until))
    mask = None
    for condition in conditions:
        mask = condition if mask is None else pc.and_(mask, condition)
    return mask
