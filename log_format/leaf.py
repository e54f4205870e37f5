"""A batch's leaf in the Merkle tree (RFC 9162 hashing).

The leaf leaves out what may change after the append: the checksum, the durable position, and
the mark that retention has removed the body. What is gone stays provable.
"""

from hashlib import sha256
from typing import Final

from log_format.envelope import HEAD_BYTES, MAGIC
from log_format.parts import DURABLE_BYTES

_LEAF_PREFIX: Final = b"\x00"
_CRC_BYTES: Final = 4


def leaf_hash(stamped_envelope: bytes) -> bytes:
    """SHA-256(0x00 ‖ envelope without its CRC and durable position)."""
    head = stamped_envelope[len(MAGIC) : HEAD_BYTES - _CRC_BYTES]
    parts = stamped_envelope[HEAD_BYTES:-DURABLE_BYTES]
    return sha256(_LEAF_PREFIX + MAGIC + head + parts).digest()
