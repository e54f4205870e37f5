"""What a record is known by: the id of one that its app gave none, and what tells repeats apart.

Pure; may import `log_format`. A derived id is unique in the mesh, and the same wherever it is read.
A producer's sequences are unique within one partition of one topic only, so the id names these too,
by their checksum: it stays short, and all of it is hexadecimal or decimal.
"""

from functools import lru_cache
from typing import Final
from zlib import crc32

import orjson

from log_format.parts import Producer
from log_format.sequence import SEQUENCE_MAX

LANES_MAX: Final = 4096
"""Checksums kept: as many topics and partitions as a busy sidecar sends to."""


@lru_cache(LANES_MAX)
def _lane(topic: str, partition: int) -> str:
    return f"{crc32(f'{topic}/{partition}'.encode()):08x}"


def id_prefix(producer: Producer) -> str:
    """What the ids of a batch's records have in common; the record's sequence follows."""
    lane = _lane(producer.topic, producer.partition)
    return f"{producer.producer_id:016x}-{producer.epoch}-{lane}-"


def derived_id(producer: Producer, index: int) -> str:
    """The id of record `index` of a batch."""
    return f"{id_prefix(producer)}{(producer.first_sequence + index) & SEQUENCE_MAX}"


def scoped_id(own: bytes | None, headers: bytes | None) -> bytes | None:
    """What a repeat of a message is recognised by, if it has an id of its own.

    Its id; of a CloudEvent, its source too: "producers MUST ensure that source + id is unique for
    each distinct event" (CloudEvents 1.0), so two sources may well use the same id.
    """
    if own is None or headers is None or b'"ce-source"' not in headers:
        return own
    try:
        source = orjson.loads(headers).get("ce-source")
    except (orjson.JSONDecodeError, AttributeError):
        return own
    return own if not isinstance(source, str) else b"%s\0%s" % (source.encode(), own)
