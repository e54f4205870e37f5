"""A log with its tree and everybody's keys, written from the format alone, for tests of checks."""

import shutil
from dataclasses import dataclass, replace
from pathlib import Path

from crc32c import crc32c
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from log_format.body import encode_body
from log_format.checkpoint_note import TreeHead, cosign, log_origin, sign_tree_head
from log_format.envelope import (
    add_provenance,
    add_stamp,
    decode_envelope,
    provenance_signed_bytes,
)
from log_format.frame import encode_frame
from log_format.layout import SegmentHead, encode_segment_head, segment_name
from log_format.leaf import leaf_hash
from log_format.note import Note, SignatureType, VerifierKey
from log_format.parts import Producer, Provenance, Stamp
from log_format.tiles import TILE_WIDTH, tiles_of
from log_format.tree import nodes_of, root_of
from sidegate.checker.log_tree import Keys
from sidegate.checker.tree_files import Claim, read_claim

LOG_ID = b"0123456789abcdef"
PROVENANCE = Provenance(
    "billing", "corp", "billing", bytes(32), "t", bytes(16), bytes(32), "rule", "gk-1", 5
)
ORIGIN = log_origin(LOG_ID)


def key_of(private: Ed25519PrivateKey, name: str, kind: SignatureType) -> VerifierKey:
    return VerifierKey(name, kind, private.public_key().public_bytes_raw())


@dataclass
class Batch:
    """What a batch is made of, so that a fault can change it and make it sound again."""

    topic: str
    values: list[bytes]
    offset: int
    append_us: int
    sequence: int
    event_us: int
    principal: str = "billing"
    gatekeeper: str = "gk-1"
    signature: bytes | None = None

    def frame(self, leaf: int, gatekeeper: Ed25519PrivateKey) -> bytes:
        """As it lies in the log: signed anew, unless it brings a signature along."""
        count, event_us = len(self.values), self.event_us
        body = encode_body([event_us] * count, self.values)
        producer = Producer(
            self.topic, 0, 1, 0, self.sequence, count, event_us, event_us, bytes(32)
        )
        sent = encode_frame(producer, body)
        envelope = decode_envelope(sent).raw
        part = replace(PROVENANCE, principal=self.principal, gatekeeper_id=self.gatekeeper)
        if self.signature is None:
            signed = provenance_signed_bytes(add_provenance(envelope, part))
            self.signature = gatekeeper.sign(signed)
        sealed = add_provenance(envelope, replace(part, signature=self.signature))
        stamp = Stamp(leaf, self.offset, self.append_us, leaf)
        return add_stamp(sealed, stamp) + sent[len(envelope) :]


class SignedLog:
    """A log with its tree, tiles and checkpoints, written from the format alone.

    `write` makes everything that lies on the core's disk from `batches`, with the core's key, as a
    core's owner could. The gatekeepers' keys and memories are not there.
    """

    def __init__(self, root: Path, batches: int = 12, segment_leaves: int = 4) -> None:
        self.root = root
        self.segment_leaves = segment_leaves
        self.folder = root / "data" / "core"
        self.core = Ed25519PrivateKey.generate()
        self.gatekeeper = Ed25519PrivateKey.generate()
        self.core_key = key_of(self.core, ORIGIN, SignatureType.ED25519)
        self.witness_key = key_of(self.gatekeeper, "gk-1", SignatureType.COSIGNATURE_V1)
        self.cosigned: dict[int, Note] = {}
        self.batches = [
            Batch(
                ("orders", "payments")[leaf % 2],
                [b'{"n":%d}' % leaf, b"needle-%d" % leaf],
                leaf // 2 * 2,
                1_767_225_600_000_000 + leaf,
                leaf // 2 * 2,
                leaf,
            )
            for leaf in range(batches)
        ]
        self.frames = self.make_frames()

    @property
    def keys(self) -> Keys:
        return Keys((self.core_key,), (self.witness_key,))

    def make_frames(self) -> list[bytes]:
        return [batch.frame(leaf, self.gatekeeper) for leaf, batch in enumerate(self.batches)]

    def leaves(self) -> list[bytes]:
        return [leaf_hash(decode_envelope(frame).raw) for frame in self.frames]

    def head(self, size: int) -> TreeHead:
        return TreeHead(ORIGIN, size, root_of(self.leaves()[:size]))

    def note(self, size: int, *, cosigned: bool = False) -> Note:
        note = sign_tree_head(self.head(size), self.core_key, self.core.sign)
        if cosigned:
            note = cosign(note, self.witness_key, self.gatekeeper.sign, 1_767_225_700)
        return note

    def write(self, *, tree: bool = True, cosigned: tuple[int, ...] = (4, 8)) -> Path:
        """Write segments, and the tree beside them; a checkpoint at each segment's end."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        for first in range(0, len(self.frames), self.segment_leaves):
            frames = self.frames[first : first + self.segment_leaves]
            begin = encode_segment_head(SegmentHead(LOG_ID, first, 0, 1))
            (self.folder / segment_name(first)).write_bytes(begin + b"".join(frames))
        if tree:
            self.write_tree(cosigned)
        return self.root

    def write_tree(self, cosigned: tuple[int, ...] = (4, 8)) -> None:
        leaves, size = self.leaves(), len(self.frames)
        tree = self.folder / "tree"
        (tree / "checkpoints").mkdir(parents=True, exist_ok=True)
        for tile in tiles_of(size):
            path = tree / tile.path
            path.parent.mkdir(parents=True, exist_ok=True)
            first = tile.index * TILE_WIDTH
            node = nodes_of(leaves)
            hashes = [node(8 * tile.level, first + at) for at in range(tile.width)]
            path.write_bytes(b"".join(hashes))
        for end in range(self.segment_leaves, size, self.segment_leaves):
            note = self.note(end, cosigned=end in cosigned)
            (tree / "checkpoints" / f"{end:020d}").write_text(str(note))
        (tree / "checkpoint").write_text(str(self.note(size, cosigned=size in cosigned)))
        lines = f"sidegate tree 1\n{LOG_ID.hex()}\n{size}\n{root_of(leaves).hex()}\n{size}\n"
        (tree / "state").write_text(f"{lines}{crc32c(lines.encode()):08x}\n")

    def remember(self, name: str, size: int) -> Claim:
        """What a witness has on its own disk."""
        path = self.root / name
        path.write_text(str(self.note(size)))
        return read_claim(path, name)
