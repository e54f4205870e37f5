"""The columns of both kinds of rows, with their types on Arrow's and on Spark's side.

The types must agree exactly: Spark takes Arrow's `string`, `binary` and `timestamp[us, UTC]`, and
neither large nor dictionary types.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.types import (
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

TIMESTAMP: Final = pa.timestamp("us", tz="UTC")


@dataclass(frozen=True, slots=True)
class Column:
    """One column. `body` says that a batch's body must be opened for it."""

    name: str
    arrow: Any
    spark: DataType
    body: bool = False


def _text(name: str, *, body: bool = False) -> Column:
    return Column(name, pa.string(), StringType(), body)


def _binary(name: str, *, body: bool = False) -> Column:
    return Column(name, pa.binary(), BinaryType(), body)


def _time(name: str, *, body: bool = False) -> Column:
    return Column(name, TIMESTAMP, TimestampType(), body)


def _long(name: str) -> Column:
    return Column(name, pa.int64(), LongType())


def _int(name: str, *, body: bool = False) -> Column:
    return Column(name, pa.int32(), IntegerType(), body)


_SENDER: Final = (
    _text("principal"),
    _text("issuer"),
    _text("client_id"),
    _text("thumbprint"),
    _text("token_id"),
    _text("decision_id"),
    _text("policy_hash"),
    _text("rule"),
    _text("gatekeeper"),
    _long("producer_id"),
    Column("epoch", pa.int16(), ShortType()),
)
"""From the envelope: who sent the batch, how that was proven, which rule allowed it."""

MESSAGES: Final = (
    _text("topic"),
    _int("partition"),
    _long("offset"),
    _time("event_time", body=True),
    _time("append_time"),
    _text("id", body=True),
    _binary("key", body=True),
    _binary("value", body=True),
    _text("content_type", body=True),
    _text("headers", body=True),
    _int("size", body=True),
    *_SENDER,
    _int("sequence"),
    _long("leaf"),
    _text("body"),
)
"""One row per message. `body` is `stored`, `removed` (by retention) or `encrypted`; without a
stored body the columns that lie in it are null."""

BATCHES: Final = (
    _text("topic"),
    _int("partition"),
    _long("base_offset"),
    _int("count"),
    _long("leaf"),
    _time("append_time"),
    _time("received_time"),
    _time("first_event_time"),
    _time("greatest_event_time"),
    *_SENDER,
    _int("first_sequence"),
    _text("body"),
    _int("body_bytes"),
    _text("codec"),
    _long("durable_leaf"),
    _binary("leaf_hash"),
    _binary("body_sha256"),
    _binary("envelope"),
    _text("file"),
    _long("position"),
    _long("frame_bytes"),
    _text("damage"),
    _text("damage_text"),
)
"""One row per batch, without opening more than its envelope and, to verify it, its hash. Where
`damage` is not null the row tells of bytes that are no sound batch, as far as can be told."""


def columns_of(rows: str, wanted: Sequence[str] | None) -> tuple[Column, ...]:
    """The columns that are asked for, in that order. Raises ValueError for one there is not."""
    table = {column.name: column for column in (MESSAGES if rows == "messages" else BATCHES)}
    if wanted is None:
        return tuple(table.values())
    unknown = [name for name in wanted if name not in table]
    if unknown:
        raise ValueError(
            f"columns: there is no {', '.join(unknown)}; rows={rows} has {', '.join(table)}"
        )
    if len(set(wanted)) != len(wanted):
        raise ValueError("columns: one is named twice")
    return tuple(table[name] for name in wanted)


def spark_schema(columns: Iterable[Column]) -> StructType:
    """The schema as Spark is told."""
    return StructType([StructField(column.name, column.spark) for column in columns])


def arrow_schema(columns: Iterable[Column]) -> Any:
    """The schema that every record batch must have."""
    return pa.schema([(column.name, column.arrow) for column in columns])
