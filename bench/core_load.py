"""Appends to a core over its private API, as a gatekeeper would: batches of one size."""

import asyncio
import secrets
import time
from dataclasses import dataclass
from hashlib import sha256

import orjson

from bench.core_process import CoreProcess
from log_format.body import encode_body
from log_format.envelope import add_provenance, new_envelope
from log_format.frame import body_padding
from log_format.parts import Producer, Provenance

MESSAGE_BYTES = 200
FRAMES = {"Content-Type": "application/vnd.sidegate.frames"}
PROVENANCE = Provenance(
    principal="bench",
    issuer="dev",
    client_id="bench",
    thumbprint=bytes(32),
    token_id="bench",
    decision_id=bytes(16),
    policy_hash=bytes(32),
    rule="bench",
    gatekeeper_id="gatekeeper-dev",
    received_us=0,
)


@dataclass
class Batches:
    """Sound frames of one producer, topic and size; only sequences differ, so making is cheap."""

    topic: str
    batch_bytes: int

    def __post_init__(self) -> None:
        count = max(1, self.batch_bytes // (MESSAGE_BYTES + 12))
        value = b"x" * min(MESSAGE_BYTES, self.batch_bytes)
        self._body = encode_body([0] * count, [value] * count)
        self._count = count
        self._producer_id = secrets.randbits(62)
        self._sequence = 0
        self._hash = sha256(self._body).digest()

    @property
    def frame_bytes(self) -> int:
        """The length of one frame's body: what a bare loop has to write in its place."""
        return len(self._body)

    @property
    def count(self) -> int:
        """Messages in a frame."""
        return self._count

    def next_parts(self) -> list[bytes]:
        """The frame that follows the last, in pieces: only its envelope is made anew."""
        producer = Producer(
            self.topic,
            0,
            self._producer_id,
            0,
            self._sequence,
            self._count,
            0,
            0,
            self._hash,
        )
        self._sequence += self._count
        size = len(self._body)
        envelope = new_envelope(producer, body_len=size, uncompressed_len=size)
        return [add_provenance(envelope, PROVENANCE), self._body, body_padding(size)]

    def next(self) -> bytes:
        """The same in one piece."""
        return b"".join(self.next_parts())


async def append_load(
    core: CoreProcess, *, topics: list[str], in_flight: int, batch_bytes: int, total_bytes: int
) -> float:
    """Bytes a second, acknowledged, with `in_flight` requests of one batch each at any time."""
    share = total_bytes // in_flight
    connections = [await core.connect() for _ in range(in_flight)]

    async def worker(number: int) -> int:
        sent = 0
        mine = [Batches(topic, batch_bytes) for topic in topics[number::in_flight] or topics[:1]]
        turn = 0
        while sent < share:
            batches = mine[turn % len(mine)]
            turn += 1
            answer = await connections[number].post(
                "/v1/append", FRAMES["Content-Type"], batches.next_parts()
            )
            results = orjson.loads(answer)["results"]
            if "error" in results[0]:
                raise RuntimeError(f"append refused: {results}")
            sent += batches.frame_bytes
        return sent

    begin = time.perf_counter()
    sent = sum(await asyncio.gather(*(worker(number) for number in range(in_flight))))
    taken = time.perf_counter() - begin
    for connection in connections:
        connection.close()
    return sent / taken
