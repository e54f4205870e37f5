"""Which partition a message goes to. Pure; the hash is stable over processes and versions."""

from typing import Final
from zlib import crc32

from sidecar.uplink.topic_memory import TopicInfo

STICKY_RECORDS: Final = 256
"""So many messages without a key go to one partition before the next one's turn: full batches."""


class Partitioner:
    """Spreads one topic's messages.

    `key`: the same key always goes to the same partition, messages without one are spread like
    `sticky`. `round_robin`: each message to the next one. `sticky`: runs of messages.
    """

    __slots__ = ("_turn", "info")

    def __init__(self, info: TopicInfo) -> None:
        self.info = info
        self._turn = 0

    def partition(self, key: bytes | None) -> int:
        """The partition for a message with this key."""
        partitions = self.info.partitions
        if partitions == 1:
            return 0
        if key is not None and self.info.strategy == "key":
            return partition_of_key(key, partitions)
        turn = self._turn
        self._turn += 1
        if self.info.strategy == "round_robin":
            return turn % partitions
        return turn // STICKY_RECORDS % partitions

    def spread(self, text: bytes, count: int) -> list[tuple[int, bytes, int]]:
        """Where each of `count` lines of `text` goes: partitions with their lines and how many."""
        partitions = self.info.partitions
        if partitions == 1:
            return [(0, text, count)]
        if self.info.strategy != "round_robin":
            turn, self._turn = self._turn, self._turn + max(count, STICKY_RECORDS)
            return [(turn // STICKY_RECORDS % partitions, text, count)]
        turn, self._turn = self._turn, self._turn + count
        lines = text.split(b"\n")
        shares = [lines[index::partitions] for index in range(min(partitions, count))]
        return [
            ((turn + index) % partitions, b"\n".join(share), len(share))
            for index, share in enumerate(shares)
        ]


def partition_of_key(key: bytes, partitions: int) -> int:
    """CRC-32 (ISO-HDLC) of the key, modulo: the same in every language that has zlib."""
    return crc32(key) % partitions
