"""Batches as Arrow record batches with one row per batch, and one per stretch of damage.

Damage is data here: the audit's checks read it like everything else, and nothing that is behind
it is lost to them.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import pyarrow as pa

from log_format.envelope import Codec, Envelope
from log_format.errors import FormatError
from log_format.frame import Frame
from log_format.leaf import leaf_hash
from spark.body_arrays import body_arrays
from spark.columns import TIMESTAMP, Column, arrow_schema
from spark.damage import Damage
from spark.selection import Batch, body_damage
from spark.sender import body_state, sender_values

ROWS_MAX: Final = 8_192
"""Rows in a record batch; with whole envelopes in them about 4 MiB."""


def batch_rows(
    found: Iterable[Batch | Damage], file: str, columns: Sequence[Column], *, verify: bool
) -> Iterator[Any]:
    """Record batches with exactly `columns`. A batch with a bad body has `damage` in its row."""
    names = [column.name for column in columns]
    rows: list[dict[str, Any]] = []
    for each in found:
        rows.append(_damage_row(each) if isinstance(each, Damage) else _row(each, file, verify))
        if len(rows) >= ROWS_MAX:
            yield _record_batch(rows, names, columns)
            rows = []
    if rows:
        yield _record_batch(rows, names, columns)


def _row(batch: Batch, file: str, verify: bool) -> dict[str, Any]:
    envelope = batch.envelope
    if verify and envelope.has_body:
        try:
            Frame(envelope, batch.body).check_hash()
            if not envelope.encrypted:
                body_arrays(envelope, batch.body, (), check=True)
        except FormatError as error:
            return _damage_row(body_damage(batch, file, error))
    return _envelope_values(envelope, file, batch.position)


def _envelope_values(envelope: Envelope, file: str, position: int) -> dict[str, Any]:
    producer, provenance, stamp = envelope.producer, envelope.provenance, envelope.stamp
    values: dict[str, Any] = {
        "topic": producer.topic,
        "partition": producer.partition,
        "count": producer.count,
        "received_time": provenance.received_us if provenance else None,
        "first_event_time": producer.first_event_us,
        "greatest_event_time": producer.greatest_event_us,
        **sender_values(envelope),
        "first_sequence": producer.first_sequence,
        "body": body_state(envelope),
        "body_bytes": envelope.body_len,
        "body_sha256": producer.body_sha256,
        "codec": "zstd" if envelope.codec is Codec.ZSTD else "none",
        "envelope": envelope.raw,
        "file": file,
        "position": position,
        "frame_bytes": envelope.frame_len,
    }
    if stamp is not None:
        values |= {
            "base_offset": stamp.base_offset,
            "leaf": stamp.leaf,
            "append_time": stamp.append_us,
            "durable_leaf": stamp.durable_leaf,
            "leaf_hash": leaf_hash(envelope.raw),
        }
    return values


def _damage_row(damage: Damage) -> dict[str, Any]:
    values: dict[str, Any] = {}
    if damage.envelope is not None:
        values = _envelope_values(damage.envelope, damage.file, damage.position)
    return values | {
        "file": damage.file,
        "position": damage.position,
        "frame_bytes": damage.length,
        "damage": damage.code,
        "damage_text": damage.text,
    }


def _record_batch(
    rows: list[dict[str, Any]], names: Sequence[str], columns: Sequence[Column]
) -> Any:
    arrays = []
    for name, column in zip(names, columns, strict=True):
        values = [row.get(name) for row in rows]
        if column.arrow == TIMESTAMP:
            arrays.append(pa.array(values, pa.int64()).cast(TIMESTAMP))
        else:
            arrays.append(pa.array(values, column.arrow))
    return pa.RecordBatch.from_arrays(arrays, schema=arrow_schema(columns))
