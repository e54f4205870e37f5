"""Producer sequence numbers: int32 with Kafka's wrap-around from 2^31-1 to 0."""

from typing import Final

SEQUENCE_MAX: Final = 2**31 - 1
EPOCH_MAX: Final = 2**15 - 1


def sequence_after(first: int, count: int) -> int:
    """The first sequence of the batch that follows `count` records beginning at `first`."""
    return (first + count) & SEQUENCE_MAX
