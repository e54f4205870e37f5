"""Where a subscriber stands, as the short text that travels as an SSE id.

`0-17_1-5` means: continue with offset 17 in partition 0 and with offset 5 in partition 1. It names
every partition, so that a reader who comes back with it misses nothing and gets nothing twice.
"""

import re
from collections.abc import Mapping
from typing import Final

from sidecar.errors import BadQuery

_FORM: Final = re.compile(r"\d{1,10}-\d{1,19}(_\d{1,10}-\d{1,19})*", re.ASCII)
POSITION_BYTES_MAX: Final = 64 * 1024
"""Over a thousand partitions fit; longer texts are refused unread."""
_OFFSET_MAX: Final = 2**63 - 1
_PARTITION_MAX: Final = 2**31 - 1


def encode_position(offsets: Mapping[int, int]) -> str:
    """The text for the next offset of each partition."""
    return "_".join(f"{partition}-{offset}" for partition, offset in sorted(offsets.items()))


def decode_position(text: str) -> dict[int, int]:
    """The next offset of each partition, or BadQuery."""
    if len(text) > POSITION_BYTES_MAX or _FORM.fullmatch(text) is None:
        raise BadQuery("Last-Event-ID", "is not an id that this sidecar has sent")
    offsets: dict[int, int] = {}
    for part in text.split("_"):
        partition, _, offset = part.partition("-")
        if (
            int(partition) > _PARTITION_MAX
            or int(offset) > _OFFSET_MAX
            or int(partition) in offsets
        ):
            raise BadQuery("Last-Event-ID", "names a partition twice, or a number out of range")
        offsets[int(partition)] = int(offset)
    return offsets
