"""A log for the audit to read, written straight to disk in the format: as a busy mesh leaves one.

Batches of 500 messages, as a sidecar builds them under load, over 8 topics and 5 principals, each
batch signed, with the tree's checkpoint beside it. Every message is another one, of about 200 bytes
of JSON, as orders are: were a few of them to come again and again, Parquet would keep them once and
a number for each row.
"""

import random
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from log_format.body import encode_body
from log_format.checkpoint_note import TreeHead, log_origin, sign_tree_head
from log_format.envelope import Codec, add_stamp, seal_provenance
from log_format.frame import body_padding, decode_frame, encode_frame
from log_format.layout import SegmentHead, encode_segment_head, segment_name
from log_format.leaf import leaf_hash
from log_format.note import SignatureType, VerifierKey
from log_format.parts import Producer, Provenance, Stamp
from log_format.sequence import sequence_after
from log_format.tree import Frontier

BATCH_RECORDS = 500
SEGMENT_BYTES = 256 * 1024 * 1024
TOPICS = 8
PRINCIPALS = 5
START_US = 1_767_225_600_000_000
LOG_ID = bytes(range(16))
CUSTOMERS = 100_000
ARTICLES = 5_000
BATCH_US = 50_000
"""Between two batches, and the time over which the events of one are spread."""


def write_log(folder: Path, records: int, *, codec: Codec = Codec.NONE) -> None:
    """Write a log of so many records, unless it is there already."""
    if (folder / "tree" / "checkpoint").exists():
        return
    folder.mkdir(parents=True)
    draw = random.Random(7)
    gatekeeper = Ed25519PrivateKey.from_private_bytes(b"g" * 32)
    core = Ed25519PrivateKey.from_private_bytes(b"c" * 32)
    frontier = Frontier()
    offsets = [0] * TOPICS
    sequences = [0] * TOPICS
    file = None
    size = SEGMENT_BYTES
    for leaf in range(records // BATCH_RECORDS):
        if size >= SEGMENT_BYTES:
            if file is not None:
                file.close()
            file = (folder / segment_name(leaf)).open("wb")
            size = file.write(encode_segment_head(SegmentHead(LOG_ID, leaf, 0, START_US)))
        now = START_US + (leaf + 1) * BATCH_US
        number = leaf % TOPICS
        times = sorted(now - int(draw.random() * BATCH_US) for _ in range(BATCH_RECORDS))
        customers = [int(draw.random() * CUSTOMERS) for _ in times]
        body = encode_body(
            times,
            [_order(draw, *each) for each in zip(times, customers, strict=True)],
            keys=[b"customer-%d" % customer for customer in customers],
        )
        part = Producer(
            f"shop.orders.{number}", 0, number, 0, sequences[number], BATCH_RECORDS,
            times[0], times[-1], bytes(32),
        )  # fmt: skip
        frame = decode_frame(encode_frame(part, body, codec=codec))
        principal = f"service-{number % PRINCIPALS}"
        given = Provenance(
            principal, "https://idp.example", principal, bytes([number % PRINCIPALS]) * 32,
            f"token-{leaf // 1000}", leaf.to_bytes(16, "big"), b"\x33" * 32,
            'topics."shop.>".publish', "gk-1", now,
        )  # fmt: skip
        sealed = seal_provenance(frame.envelope.raw, given, gatekeeper.sign)
        raw = add_stamp(sealed, Stamp(leaf, offsets[number], now, leaf))
        offsets[number] += BATCH_RECORDS
        sequences[number] = sequence_after(sequences[number], BATCH_RECORDS)
        frontier.append(leaf_hash(raw))
        assert file is not None
        size += file.write(raw + bytes(frame.body) + body_padding(len(frame.body)))
    if file is not None:
        file.close()
    _write_checkpoint(folder, frontier, core)


def _order(draw: random.Random, time_us: int, customer: int) -> bytes:
    """Written by hand: a million of them take seconds."""
    order, cents, article = draw.getrandbits(128), int(draw.random() * 1e6), draw.random()
    return (
        b'{"order_id":"%032x","customer":%d,"placed_us":%d,"article":"A-%05d","quantity":%d,'
        b'"amount":"%d.%02d","currency":"EUR","country":"DE","channel":"web","paid":true}'
    ) % (
        order, customer, time_us, int(article * ARTICLES), 1 + cents % 5, cents // 100, cents % 100,
    )  # fmt: skip


def _write_checkpoint(folder: Path, frontier: Frontier, core: Ed25519PrivateKey) -> None:
    origin = log_origin(LOG_ID)
    key = VerifierKey(origin, SignatureType.ED25519, core.public_key().public_bytes_raw())
    note = sign_tree_head(TreeHead(origin, frontier.size, frontier.root()), key, core.sign)
    (folder / "tree").mkdir()
    (folder / "tree" / "checkpoint").write_text(str(note))


def gatekeeper_key() -> VerifierKey:
    """The public key that the log's batches are signed with."""
    private = Ed25519PrivateKey.from_private_bytes(b"g" * 32)
    return VerifierKey("gk-1", SignatureType.ED25519, private.public_key().public_bytes_raw())
