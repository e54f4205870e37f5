"""`/v1/checkpoint`, `/v1/proof` and `/v1/cosignatures`: what anybody needs to check the log.

Proofs are made in threads of their own, a bounded number at a time, so that neither the writer nor
the event loop waits for a tile. A proof is verified before it leaves: an envelope that is not the
one in the tree is reported, never shown as proven.
"""

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final, TypeVar

from aiohttp import web

from core_log.api.query import BadQuery, Query
from core_log.api.reading import WAIT_MS_MAX
from core_log.api.request_body import read_json
from core_log.api.wire import json_response
from core_log.control.catalog import Catalog
from core_log.control.topics import PARTITIONS_MAX
from core_log.log.log import Log
from core_log.log.log_errors import LogError
from core_log.tree.checkpoint_notes import SignedHead
from core_log.tree.checkpointing import Checkpointing
from core_log.tree.cosignatures import COSIGNERS_MAX, parse_offered
from core_log.tree.tree import NoSuchLeaf, TreeRefused
from log_format.errors import BadField
from log_format.leaf import leaf_hash
from log_format.topic import check_any_topic
from log_format.tree import verify_inclusion

PROOF_THREADS: Final = 2
"""Proofs at a time: each is a few tiles and a thousand hashes, about a millisecond."""
PROOFS_WAITING_MAX: Final = 256
"""Proofs asked for and not made yet: a quarter of a second of work, and no memory to speak of."""

T = TypeVar("T")

log = logging.getLogger("sidegate.core.tree")


class LeafLost(LogError):
    """The leaf's envelope was lost to damage; its hash is still in the tree."""

    code = "damaged"


class TooManyProofs(LogError):
    """More proofs are asked for than can be made soon. Ask again shortly."""

    code = "overloaded"
    headers = {"Retry-After": "1"}  # noqa: RUF012 - what the answer carries


@dataclass(frozen=True, slots=True)
class Place:
    """A message by its topic, partition and offset."""

    topic: str
    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class ProofQuery:
    """Either a leaf (or the place of a message) and perhaps a size, or two sizes."""

    leaf: int | None = None
    place: Place | None = None
    size: int | None = None
    sizes: tuple[int, int] | None = None


def parse_proof(query: Query) -> ProofQuery:
    """What a proof is asked of, or BadQuery. Exactly one of the three forms."""
    given = {name for name in ("leaf", "topic", "from") if query.text(name) is not None}
    if len(given) != 1:
        raise BadQuery("give one of: leaf; topic, partition and offset; from and to")
    if "from" in given:
        if query.text("to") is None:
            query.problems.append("to: must be given with from")
        parsed = ProofQuery(sizes=(query.integer("from", 0), query.integer("to", 0)))
    else:
        size = None if query.text("size") is None else query.integer("size", 0, least=1)
        if "leaf" in given:
            parsed = ProofQuery(leaf=query.integer("leaf", 0), size=size)
        else:
            parsed = ProofQuery(place=_place(query), size=size)
    query.finish()
    return parsed


def _place(query: Query) -> Place:
    topic = ""
    try:
        topic = check_any_topic(query.text("topic"))
    except BadField as error:
        query.problems.append(str(error))
    if query.text("offset") is None:
        query.problems.append("offset: must be given with topic")
    partition = query.integer("partition", 0, most=PARTITIONS_MAX - 1)
    return Place(topic, partition, query.integer("offset", 0))


class ProofRoutes:
    """The handlers. `draining` ends every wait."""

    def __init__(
        self, checkpoints: Checkpointing, catalog: Catalog, log: Log, draining: asyncio.Event
    ) -> None:
        self._checkpoints = checkpoints
        self._catalog = catalog
        self._log = log
        self._draining = draining
        self._pool = ThreadPoolExecutor(PROOF_THREADS, thread_name_prefix="proofs")
        self._waiting = 0

    def add_to(self, app: web.Application) -> None:
        """Register the routes."""
        app.router.add_get("/v1/checkpoint", self.checkpoint, allow_head=False)
        app.router.add_get("/v1/proof", self.proof, allow_head=False)
        app.router.add_post("/v1/cosignatures", self.cosign)

    def close(self) -> None:
        """Make no further proof."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    async def checkpoint(self, request: web.Request) -> web.Response:
        """The newest checkpoint; waits for one that covers `wait_leaf` if asked to.

        Where the time was not enough, the newest one as it is: whoever waited looks at its size.
        """
        query = Query(request.query.items())
        asked = query.text("wait_leaf") is not None or query.text("cosigned") is not None
        leaf = query.integer("wait_leaf", -1)
        cosigned = query.integer("cosigned", 0, most=COSIGNERS_MAX)
        wait_s = query.integer("wait_ms", 0, most=WAIT_MS_MAX) / 1000
        query.finish()
        found = self._checkpoints.require().newest
        if asked:
            found = await self._checkpoints.wait_for(leaf, cosigned, self._draining, wait_s)
        if found is None:
            found = self._checkpoints.require().newest
        return web.Response(
            text=str(found.note) if found is not None else "",
            content_type="text/plain",
            charset="utf-8",
            headers={"Cache-Control": "no-store"},
        )

    async def proof(self, request: web.Request) -> web.Response:
        """That a leaf is in the tree of a checkpoint, or that one tree extends another."""
        asked = parse_proof(Query(request.query.items()))
        tree = self._checkpoints.tree
        if asked.sizes is not None:
            old, new = asked.sizes
            hashes = await self._in_thread(lambda: tree.consistency(old, new))
            return json_response({"from": old, "to": new, "hashes": [h.hex() for h in hashes]})
        leaf = asked.leaf if asked.leaf is not None else await self._leaf_of(asked.place)
        signed = await self._covering(leaf, asked.size)
        return json_response(await self._in_thread(lambda: self._inclusion(leaf, signed)))

    async def cosign(self, request: web.Request) -> web.Response:
        """Store a witness's cosignature with the checkpoint that it is about."""
        signed = await self._checkpoints.cosign(parse_offered(await read_json(request)))
        return json_response({"size": signed.size, "cosignatures": signed.cosignatures})

    async def _leaf_of(self, place: Place | None) -> int:
        if place is None:
            raise BadQuery("give one of: leaf; topic, partition and offset; from and to")
        topic = self._catalog.log_of(self._catalog.get(place.topic))
        partition = topic.check_partition(place.partition)
        leaf = await self._in_thread(
            lambda: self._log.leaf_of(place.topic, partition, place.offset)
        )
        if leaf is None:
            raise NoSuchLeaf(
                f"{place.topic}/{place.partition} has no batch with offset {place.offset} on disk"
            )
        return leaf

    async def _covering(self, leaf: int, size: int | None) -> SignedHead:
        if size is not None:
            signed: SignedHead | None = await self._checkpoints.find(size)
        else:
            signed = self._checkpoints.require().best(leaf)
        if signed is None or leaf >= signed.size:
            covered = 0 if signed is None else signed.size
            raise NoSuchLeaf(
                f"leaf {leaf} is not covered by a checkpoint of {covered} leaves; wait for one "
                f"with GET /v1/checkpoint?wait_leaf={leaf}&wait_ms=…",
                {"leaf": leaf, "retryable": True},
            )
        return signed

    def _inclusion(self, leaf: int, signed: SignedHead) -> dict[str, object]:
        tree, head = self._checkpoints.tree, signed.head
        hashes = tree.inclusion(leaf, head.size)
        envelope = tree.leaves.envelope(leaf)
        if envelope is None:
            raise LeafLost(f"the envelope of leaf {leaf} was lost to damage; its hash was not")
        if not verify_inclusion(leaf_hash(envelope.raw), leaf, head.size, hashes, head.root):
            producer = envelope.producer
            fields = {"leaf": leaf, "topic": producer.topic, "partition": producer.partition}
            log.critical("a batch is not the one that was signed", extra={"fields": fields})
            raise TreeRefused(
                f"leaf {leaf} in the log is not the one that was signed; run `sidegate log verify`"
            )
        return {
            "leaf": leaf,
            "size": head.size,
            "envelope": envelope.raw.hex(),
            "hashes": [each.hex() for each in hashes],
            "checkpoint": str(signed.note),
        }

    async def _in_thread(self, work: Callable[[], T]) -> T:
        if self._waiting >= PROOFS_WAITING_MAX:
            raise TooManyProofs(f"{PROOFS_WAITING_MAX} proofs are being made; ask again shortly")
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._pool, work)
        finally:
            self._waiting -= 1
