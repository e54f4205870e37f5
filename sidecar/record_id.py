"""The id of a record that its app gave none: unique in the mesh, the same wherever it is read.

Pure; may import `log_format`. A producer's sequences are unique within one partition of one topic
only, so the id names these too, by their checksum: it stays short, and all of it is hexadecimal
or decimal.
"""

from functools import lru_cache
from typing import Final
from zlib import crc32

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
