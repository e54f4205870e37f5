"""Receipts: the proof that a message is in the log, as soon as a checkpoint covers it.

Asks a gatekeeper for the proof of a message, waits until a witness has cosigned a checkpoint of it,
and holds what it gets against itself before an app sees it. The keys are the app's to check with;
the sidecar has none. May import `log_format`; knows no HTTP of the app's side.
"""

import asyncio
from dataclasses import dataclass
from typing import Any, Final

from log_format.checkpoint_note import parse_tree_head
from log_format.errors import FormatError
from log_format.frame import decode_frame
from log_format.leaf import leaf_hash
from log_format.note import parse_note
from log_format.proof import Proof, make_proof
from log_format.tree import verify_inclusion
from sidecar.delivery.reader import refusal_of, unreachable
from sidecar.errors import GatekeeperRefused, NoReceipt, SidecarError, UnknownMessage
from sidecar.uplink.answer_parser import Answer
from sidecar.uplink.gateway import Gateway, Unreachable

WAIT_MS_MAX: Final = 10_000
"""One wait for a checkpoint: below what a gatekeeper holds a question for."""
ANSWER_S: Final = 5.0
"""For an answer, beyond the wait that was asked for."""
AGAIN_S: Final = 0.1
"""After an answer that came at once and brought nothing new: no question is asked more often."""
BODY_BYTES_MAX: Final = 1024 * 1024
"""A batch's content is part of a receipt up to this: one large message, or thousands of small ones.
Beyond it the receipt is without; `sidegate log prove` makes one with it."""


@dataclass(frozen=True, slots=True)
class Receipt:
    """A proof, and whether a witness has cosigned its checkpoint."""

    proof: Proof
    cosigned: bool


class Receipts:
    """Fetches receipts. Keeps no state."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def fetch(self, topic: str, partition: int, offset: int, timeout_s: float) -> Receipt:
        """The receipt of a message, cosigned if that comes in time, or a SidecarError."""
        loop = asyncio.get_running_loop()
        until = loop.time() + timeout_s
        while True:
            answer = await self._proof(topic, partition, offset)
            found, leaf = self._read(answer, topic, partition, offset)
            left_s = until - loop.time()
            if (found is not None and found.cosigned) or left_s <= 0:
                break
            await self._wait(leaf, left_s)
        if found is None:
            raise NoReceipt("no checkpoint covers the message yet; ask again in a second")
        body = await self._body(found.proof)
        return Receipt(_with_body(found.proof, body), found.cosigned)

    async def _proof(self, topic: str, partition: int, offset: int) -> Answer:
        query = {"topic": topic, "partition": str(partition), "offset": str(offset)}
        return await self._ask("/v1/proof", query, ANSWER_S)

    def _read(
        self, answer: Answer, topic: str, partition: int, offset: int
    ) -> tuple[Receipt | None, int]:
        """The receipt in an answer, or None where the leaf is not covered yet; and the leaf."""
        document = answer.document()
        members: dict[str, Any] = document if isinstance(document, dict) else {}
        if answer.status == 200:
            receipt = _checked(members, topic, partition, offset)
            return receipt, receipt.proof.leaf
        if answer.status == 404 and members.get("code") == "unknown_leaf":
            leaf = members.get("leaf")
            if members.get("retryable") is True and isinstance(leaf, int):
                return None, leaf
            raise UnknownMessage(str(members.get("detail")))
        if answer.status == 404 and members.get("code") == "not_found":
            raise NoReceipt("this log gives no proofs: its gatekeeper or core is an older one")
        raise refusal_of(answer)

    async def _wait(self, leaf: int, left_s: float) -> None:
        """Until there is a cosigned checkpoint of the leaf, or as long as it takes."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        wait_ms = min(int(left_s * 1000), WAIT_MS_MAX)
        query = {"wait_leaf": str(leaf), "cosigned": "1", "wait_ms": str(wait_ms)}
        answer = await self._ask("/v1/checkpoint", query, wait_ms / 1000 + ANSWER_S)
        if answer.status != 200:
            raise refusal_of(answer)
        await asyncio.sleep(max(0.0, min(began + AGAIN_S - loop.time(), left_s)))

    async def _body(self, proof: Proof) -> bytes | None:
        """The batch's content, where this app may read it and it is not too large."""
        query = {
            "topic": proof.topic,
            "partition": str(proof.partition),
            "offset": str(proof.offset),
            "max_bytes": "1",
        }
        try:
            answer = await self._ask("/v1/read", query, ANSWER_S)
            if answer.status != 200 or not answer.body:
                return None
            frame = decode_frame(answer.body)
        except (SidecarError, FormatError):
            # The receipt is whole without the content; reading may not be this app's to do.
            return None
        same = leaf_hash(frame.envelope.raw) == leaf_hash(proof.envelope)
        return bytes(frame.body) if same and 0 < len(frame.body) <= BODY_BYTES_MAX else None

    async def _ask(self, path: str, query: dict[str, str], timeout_s: float) -> Answer:
        try:
            return await self._gateway.ask("GET", path, query=query, timeout_s=timeout_s)
        except Unreachable as error:
            raise unreachable(error) from error


def _checked(members: dict[str, Any], topic: str, partition: int, offset: int) -> Receipt:
    """A proof that proves what was asked for, given that its checkpoint is genuine."""
    try:
        envelope = bytes.fromhex(members["envelope"])
        hashes = [bytes.fromhex(each) for each in members["hashes"]]
        note = parse_note(str(members["checkpoint"]))
        head = parse_tree_head(note.text)
        proof = make_proof(
            envelope, offset, size=head.size, hashes=hashes, checkpoint=str(note), body=None
        )
        holds = verify_inclusion(leaf_hash(envelope), proof.leaf, head.size, hashes, head.root)
    except (LookupError, TypeError, ValueError) as error:
        raise GatekeeperRefused(f"the log's proof can't be read: {error}") from error
    if not holds or (proof.topic, proof.partition) != (topic, partition):
        raise GatekeeperRefused("the log's proof is not of this message, or does not hold")
    return Receipt(proof, len(note.signatures) > 1)


def _with_body(proof: Proof, body: bytes | None) -> Proof:
    return make_proof(
        proof.envelope,
        proof.offset,
        size=proof.size,
        hashes=proof.hashes,
        checkpoint=proof.checkpoint,
        body=body,
    )
