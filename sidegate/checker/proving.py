"""Makes a message's proof from a log's files: its envelope, its path in the tree, a checkpoint.

Works on a log whose core runs or does not. Hashes come from the tree's tiles, and from the batches
themselves where tiles are missing or do not fit. Imports the format and the checker's own files.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from log_format.envelope import decode_envelope, peek_lengths
from log_format.errors import FormatError
from log_format.layout import SEGMENT_HEAD_BYTES, parse_segment_name
from log_format.leaf import leaf_hash
from log_format.note import VerifierKey
from log_format.proof import Proof, make_proof
from log_format.tiles import TILE_WIDTH, Tile, nodes_in
from log_format.tree import HASH_BYTES, inclusion_proof, perfect_root, verify_inclusion
from sidegate.checker.mapped import map_file
from sidegate.checker.tree_files import Claim, TreeFiles
from sidegate.checker.verify import segments_of

ReadTile = Callable[[Tile], bytes]


class CannotProve(Exception):
    """There is no proof. The message says what is missing, or what does not fit."""


@dataclass(frozen=True, slots=True)
class Located:
    """A batch where it lies in the log. `body` is None where retention has removed it."""

    envelope: bytes
    body: bytes | None
    leaf: int


def find_batch(folder: Path, topic: str, partition: int, offset: int) -> Located:
    """The batch that holds a message."""
    needle = topic.encode("ascii", "replace")
    seen = -1
    for path in segments_of(folder):
        data = map_file(path)
        for position, length in _frames(data):
            if needle not in bytes(data[position : position + length]):
                continue
            envelope = decode_envelope(data, position)
            producer, stamp = envelope.producer, envelope.stamp
            if stamp is None or (producer.topic, producer.partition) != (topic, partition):
                continue
            seen = stamp.base_offset + producer.count - 1
            if stamp.base_offset <= offset <= seen:
                begin = position + length
                body = bytes(data[begin : begin + envelope.body_len])
                return Located(envelope.raw, body if envelope.has_body else None, stamp.leaf)
    if seen < 0:
        raise CannotProve(
            f"the log holds nothing of {topic}/{partition}; see `sidegate topics list`"
        )
    raise CannotProve(f"{topic}/{partition} has no offset {offset}; its last one is {seen}")


def best_claim(
    claims: Sequence[Claim], leaf: int, witnesses: Sequence[VerifierKey]
) -> tuple[Claim | None, bool]:
    """The newest checkpoint that covers a leaf, and whether it is cosigned; one that is comes
    before a newer one that is not. Without keys every second signature counts as a cosignature."""
    covering = sorted(
        (claim for claim in claims if claim.head.size > leaf),
        key=lambda claim: claim.head.size,
        reverse=True,
    )
    for claim in covering:
        lines = len(claim.note.signatures) > 1
        if claim.cosigners(witnesses) if witnesses else lines:
            return claim, True
    return (covering[0], False) if covering else (None, False)


def prove(folder: Path, located: Located, offset: int, claim: Claim, *, body: bool) -> Proof:
    """The proof of the message at `offset` by this checkpoint, or CannotProve."""
    size, root = claim.head.size, claim.head.root
    own = leaf_hash(located.envelope)
    files = TreeFiles(folder, folder)
    for read in (_stored(files, folder), _computed(folder, size)):
        hashes = inclusion_proof(located.leaf, size, nodes_in(size, read))
        if verify_inclusion(own, located.leaf, size, hashes, root):
            return make_proof(
                located.envelope,
                offset,
                size=size,
                hashes=hashes,
                checkpoint=str(claim.note),
                body=located.body if body else None,
            )
    raise CannotProve(
        f"leaf {located.leaf} is not in the tree of {size} leaves that was signed ({claim.name}):"
        " the log was changed; `sidegate log verify` says where"
    )


def leaf_hashes(folder: Path, first: int, count: int) -> list[bytes]:
    """The hashes of `count` leaves from `first` on, from the batches themselves."""
    found: dict[int, bytes] = {}
    paths = segments_of(folder)
    begins = [parse_segment_name(path.name) or 0 for path in paths]
    for number, path in enumerate(paths):
        ends = begins[number + 1] if number + 1 < len(paths) else None
        if begins[number] >= first + count or (ends is not None and ends <= first):
            continue
        data = map_file(path)
        for position, length in _frames(data):
            raw = bytes(data[position : position + length])
            stamp = decode_envelope(raw).stamp
            if stamp is not None and first <= stamp.leaf < first + count:
                found[stamp.leaf] = leaf_hash(raw)
    if len(found) != count:
        raise CannotProve(f"leaves from {first} to {first + count - 1} are not all in the log")
    return [found[number] for number in range(first, first + count)]


def _stored(files: TreeFiles, folder: Path) -> ReadTile:
    """Tiles from their files, and computed where a file is missing or too short."""

    def read(tile: Tile) -> bytes:
        content = files.tile(tile.level, tile.index) or b""
        if len(content) >= tile.width * HASH_BYTES:
            return content[: tile.width * HASH_BYTES]
        return _compute(folder, tile, read)

    return read


def _computed(folder: Path, size: int) -> ReadTile:
    """Tiles from nothing but the batches."""
    leaves = b"".join(leaf_hashes(folder, 0, size)) if size else b""

    def read(tile: Tile) -> bytes:
        if tile.level:
            return _compute(folder, tile, read)
        begin = tile.index * TILE_WIDTH * HASH_BYTES
        return leaves[begin : begin + tile.width * HASH_BYTES]

    return read


def _compute(folder: Path, tile: Tile, read: ReadTile) -> bytes:
    first = tile.index * TILE_WIDTH
    if tile.level == 0:
        return b"".join(leaf_hashes(folder, first, tile.width))
    return b"".join(
        perfect_root(_split(read(Tile(tile.level - 1, number))))
        for number in range(first, first + tile.width)
    )


def _split(content: bytes) -> list[bytes]:
    return [content[at : at + HASH_BYTES] for at in range(0, len(content), HASH_BYTES)]


def _frames(data: memoryview) -> Iterator[tuple[int, int]]:
    """Where envelopes begin and how long they are, up to the first damage or the end."""
    position = SEGMENT_HEAD_BYTES
    while position < len(data):
        try:
            lengths = peek_lengths(data, position)
            if position + lengths.frame > len(data):
                return
            yield position, lengths.envelope
        except FormatError:
            return
        position += lengths.frame
