"""A tree over a fake log, with checkpoints and receipts."""

import asyncio
from typing import Any

from aiohttp import web
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from log_format.checkpoint_note import TreeHead, cosign, sign_tree_head
from log_format.envelope import decode_envelope
from log_format.leaf import leaf_hash
from log_format.note import SignatureType, VerifierKey
from log_format.tree import inclusion_proof, nodes_of, root_of
from tests.sidecar.fakes.answers import problem
from tests.sidecar.fakes.log import FakeLog


class FakeProofs:
    """The tree over a FakeLog's batches. `signed` leaves are covered by a checkpoint, `cosigned`
    ones by a witness too; a wait for more of them ends when `grow` says that there are."""

    def __init__(self, log: FakeLog) -> None:
        self.log = log
        self.signed = 0
        self.cosigned = 0
        self.core = Ed25519PrivateKey.generate()
        self.gate = Ed25519PrivateKey.generate()
        self.core_key = VerifierKey(
            "sidegate/aa", SignatureType.ED25519, self.core.public_key().public_bytes_raw()
        )
        self.gate_key = VerifierKey(
            "g", SignatureType.COSIGNATURE_V1, self.gate.public_key().public_bytes_raw()
        )
        self.grown = asyncio.Condition()
        self.answer: web.Response | None = None

    def add_routes(self, app: web.Application) -> None:
        app.router.add_get("/v1/proof", self._proof)
        app.router.add_get("/v1/checkpoint", self._checkpoint)

    async def grow(self, signed: int, cosigned: int = 0) -> None:
        self.signed, self.cosigned = signed, cosigned
        async with self.grown:
            self.grown.notify_all()

    def envelopes(self) -> list[bytes]:
        found = {}
        for frames in self.log.frames.values():
            for _offset, whole in frames:
                envelope = decode_envelope(whole)
                assert envelope.stamp is not None
                found[envelope.stamp.leaf] = envelope.raw
        return [found[leaf] for leaf in sorted(found)]

    def note(self, size: int) -> Any:
        leaves = [leaf_hash(each) for each in self.envelopes()[:size]]
        note = sign_tree_head(
            TreeHead("sidegate/aa", size, root_of(leaves)), self.core_key, self.core.sign
        )
        return cosign(note, self.gate_key, self.gate.sign, 1) if size <= self.cosigned else note

    async def _proof(self, request: web.Request) -> web.Response:
        if self.answer is not None:
            return self.answer
        query, envelopes = request.query, self.envelopes()
        place = (query["topic"], int(query["partition"]))
        for leaf, raw in enumerate(envelopes):
            envelope = decode_envelope(raw)
            assert envelope.stamp is not None
            first = envelope.stamp.base_offset
            own = (envelope.producer.topic, envelope.producer.partition)
            if own != place or not 0 <= int(query["offset"]) - first < envelope.producer.count:
                continue
            if leaf >= self.signed:
                extra: Any = {"leaf": leaf, "retryable": True}
                return problem(404, "unknown_leaf", "not covered", **extra)
            size = self.cosigned if leaf < self.cosigned else self.signed
            leaves = [leaf_hash(each) for each in envelopes[:size]]
            path = inclusion_proof(leaf, size, nodes_of(leaves))
            return web.json_response(
                {
                    "leaf": leaf,
                    "size": size,
                    "envelope": raw.hex(),
                    "hashes": [each.hex() for each in path],
                    "checkpoint": str(self.note(size)),
                }
            )
        return problem(404, "unknown_leaf", "no such batch")

    async def _checkpoint(self, request: web.Request) -> web.Response:
        wanted = int(request.query["wait_leaf"])
        try:
            async with asyncio.timeout(int(request.query["wait_ms"]) / 1000), self.grown:
                await self.grown.wait_for(lambda: self.cosigned > wanted)
        except TimeoutError:
            pass
        return web.Response(text=str(self.note(self.signed)) if self.signed else "")
