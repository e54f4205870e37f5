"""`spark.read.format("sidegate")`: the log as a DataFrame (Python Data Source API).

Pushes no filters: in Spark 4.3.0 a DataFrame that is used twice would then return wrong rows.
Ranges are options, and Spark filters again. Nor does Spark prune columns here, so `columns` or a
schema of the user's says what is read.
"""

import gc
from collections.abc import Iterator, MutableMapping
from functools import lru_cache
from typing import Any

from pyspark import TaskContext
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from spark.archive_reader import ArchivePartition, archive_partitions, read_archive
from spark.columns import Column, columns_of, spark_schema
from spark.log_folder import log_folder, plan, segments_of
from spark.options import Options, parse_options
from spark.range_reader import LogPartition, read_range
from spark.selection import Leaves
from spark.stream_reader import LogStreamReader
from spark.synced import synced_leaves


class SidegateDataSource(DataSource):
    """The format `sidegate`."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self.parsed = parse_options(dict(options))

    @classmethod
    def name(cls) -> str:
        return "sidegate"

    def schema(self) -> StructType:
        return spark_schema(columns_of(self.parsed.rows, self.parsed.columns))

    def reader(self, schema: StructType) -> "LogReader":
        return LogReader(self.parsed, wanted_columns(self.parsed, schema))

    def streamReader(self, schema: StructType) -> LogStreamReader:  # noqa: N802 - Spark's name
        return LogStreamReader(self.parsed, wanted_columns(self.parsed, schema))


def wanted_columns(options: Options, schema: StructType) -> tuple[Column, ...]:
    """The columns of a schema, which may be one that the user gave: names and types must fit."""
    columns = columns_of(options.rows, schema.names)
    for field, column in zip(schema.fields, columns, strict=True):
        if field.dataType != column.spark:
            raise ValueError(
                f"schema: {field.name} is {column.spark.simpleString()}, not"
                f" {field.dataType.simpleString()}; cast it after the load"
            )
    return columns


class LogReader(DataSourceReader):
    """Reads a log as it was when the read was planned."""

    def __init__(self, options: Options, columns: tuple[Column, ...]) -> None:
        self.options = options
        self.columns = columns

    def partitions(self) -> list[InputPartition]:
        folder = log_folder(self.options.path)
        log_id = next((each.log_id for each in segments_of(folder) if each.log_id), b"")
        archived, first = archive_partitions(self.options, log_id)
        leaves = Leaves(first, synced_leaves(folder) if self.options.synced_only else None)
        pieces = plan(
            folder,
            split_bytes=self.options.split_bytes,
            first_leaf=leaves.first,
            end_leaf=leaves.end,
        )
        return [*archived, *(LogPartition(piece, leaves) for piece in pieces)]

    def read(self, partition: InputPartition | None) -> Iterator[Any]:
        if TaskContext.get() is not None:
            _settle_worker()
        # Spark turns an empty list of partitions into a single one that is None.
        if isinstance(partition, LogPartition):
            yield from read_range(self.options, self.columns, partition)
        elif isinstance(partition, ArchivePartition):
            yield from read_archive(partition.path, self.columns, self.options.bounds)


@lru_cache(1)
def _settle_worker() -> None:
    """Spark's Python workers collect garbage after every task, and would each time look for it
    among all the modules that they have loaded: 18 ms, a tenth of a task that reads four columns.
    """
    gc.freeze()
