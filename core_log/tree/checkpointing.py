"""The timer of checkpoints: at least one a second under load, one after the last append, and
sooner where somebody waits for a leaf to be covered. Signing itself runs in a thread of its own.

A component; imports the checkpointer and the storage.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from core_log.clock import Clock
from core_log.config import CoreConfig
from core_log.control.waiting import first_of
from core_log.log.files import Files
from core_log.log.log import Log
from core_log.log.log_errors import LogError
from core_log.log.results import Committed
from core_log.storage import Storage
from core_log.tree.checkpoint_notes import SignedHead
from core_log.tree.checkpointer import Checkpointer
from core_log.tree.remote_signer import RemoteSigner
from core_log.tree.signing import (
    LocalSigner,
    NotAnExtension,
    Signer,
    SignerUnavailable,
)
from core_log.tree.tree import Tree, TreeRefused
from core_log.tree.tree_audit import TreeAudit, pause_s
from core_log.tree.witness_keys import WitnessKeysUnusable, load_witness_keys
from hosting.lifecycle import Readiness, StartError
from hosting.signing_key import SigningKeyError, load_signing_key
from log_format.checkpoint_note import log_origin
from log_format.note import Note

SIGN_INTERVAL_S: Final = 0.8
"""From one checkpoint to the next under load: with the time that signing takes, below a second."""
HURRY_INTERVAL_S: Final = 0.2
"""The same where somebody waits: each costs a handful of syncs, which appends wait for too."""
WAITERS_MAX: Final = 10_000
"""Callers that wait for a checkpoint: as many as streams; each costs a task."""

T = TypeVar("T")

log = logging.getLogger("sidegate.core.tree")


class NoCheckpoint(LogError):
    """Nothing has been signed: this core has no signing key, or only just started."""

    code = "no_checkpoint"


class TooManyWaiters(LogError):
    """More callers wait for checkpoints than are allowed to; ask again without waiting."""

    code = "overloaded"


class Checkpointing:
    """The component. Without a key or signer it does nothing but say so."""

    name = "checkpoints"

    def __init__(self, config: CoreConfig, storage: Storage, clock: Clock, files: Files) -> None:
        self._config = config
        self._storage = storage
        self._clock = clock
        self._files = files
        self._stopping = asyncio.Event()
        self._appended = asyncio.Event()
        self._hurried = asyncio.Event()
        self._changed = asyncio.Event()
        self._waiting = 0
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="checkpoints")
        self._audit_pool = ThreadPoolExecutor(1, thread_name_prefix="tree-audit")
        self._task: asyncio.Task[None] | None = None
        self._auditing: asyncio.Task[None] | None = None
        self.audit: TreeAudit | None = None
        self._tried_at = float("-inf")
        self.signed_at = float("-inf")
        self.checkpointer: Checkpointer | None = None
        self.problem: str | None = None

    @property
    def tree(self) -> Tree:
        """The tree of the main log."""
        tree = self._log.tree
        if tree is None:
            raise RuntimeError("the main log keeps a tree")
        return tree

    @property
    def _log(self) -> Log:
        return self._storage.disk.log

    async def start(self) -> None:
        """Take up what was signed before, sign what was not, and go on."""
        try:
            signer = self._signer()
            witnesses = load_witness_keys(self._config.witness_keys)
        except (SigningKeyError, WitnessKeysUnusable) as error:
            self._close_pools()
            raise StartError(str(error)) from error
        self.audit = TreeAudit(self.tree)
        self._auditing = asyncio.create_task(self._audit(self.audit), name="tree-audit")
        if signer is None:
            return
        self.checkpointer = Checkpointer(
            self._log,
            self.tree,
            self._files,
            self._config.data,
            signer,
            self._clock,
            witnesses,
        )
        try:
            await self._in_thread(self.checkpointer.open)
        except OSError as error:
            await self.stop()
            raise StartError(f"the checkpoints can't be read: {error}") from error
        await self._turn()
        self._storage.disk.tail(self._on_commit)
        self._task = asyncio.create_task(self._run(), name="checkpoints")

    async def drain(self) -> None:
        """Nothing to refuse: what was appended is signed when it stops."""

    async def stop(self) -> None:
        """Sign what is left and end."""
        self._stopping.set()
        if self._auditing is not None:
            await self._auditing
        if self._task is not None:
            await self._task
            await self._turn()
        self._close_pools()

    def readiness(self) -> Readiness:
        """Not ready while the tree is refused: what is appended can't be proven any more."""
        try:
            tree = self.tree
        except AttributeError:
            return Readiness(ready=False, detail={"state": "opening"})
        detail: dict[str, object] = {"leaves": tree.size, "signed": tree.signed}
        if self.checkpointer is not None:
            detail["unsigned"] = self.checkpointer.unsigned
        if tree.refusal is not None:
            detail["refused"] = tree.refusal
        if self.problem is not None:
            detail["problem"] = self.problem
        return Readiness(tree.refusal is None, detail)

    def status(self) -> dict[str, object]:
        """What `/v1/status` says of the tree."""
        checkpointer = self.checkpointer
        newest = None if checkpointer is None else checkpointer.newest
        return {
            "origin": log_origin(self._log.log_id),
            "signed_leaves": 0 if newest is None else newest.size,
            "tree_refused": self.tree.refusal,
        }

    # Asking.

    def require(self) -> Checkpointer:
        """The checkpoints of this core, or NoCheckpoint."""
        if self.checkpointer is None or self.checkpointer.newest is None:
            raise NoCheckpoint(
                "this core has signed no checkpoint; give it `signing_key` or `signer`"
                + ("" if self.problem is None else f" ({self.problem})")
            )
        return self.checkpointer

    def shown(self, leaf: int, cosignatures: int) -> SignedHead | None:
        """The newest checkpoint that covers `leaf` with so many cosignatures."""
        return self.require().newest_with(leaf, cosignatures)

    async def wait_for(
        self, leaf: int, cosignatures: int, draining: asyncio.Event, timeout_s: float
    ) -> SignedHead | None:
        """The same, after some time if need be; None if that was not enough."""
        if self._waiting >= WAITERS_MAX:
            raise TooManyWaiters(f"{WAITERS_MAX} callers wait already; ask again without waiting")
        self._waiting += 1
        self._hurried.set()
        ends_at = self._clock.monotonic() + timeout_s
        try:
            while (found := self.shown(leaf, cosignatures)) is None:
                left_s = ends_at - self._clock.monotonic()
                if left_s <= 0 or draining.is_set():
                    return None
                await first_of(self._changed.wait(), draining.wait(), timeout_s=left_s)
            return found
        finally:
            self._waiting -= 1

    async def cosign(self, offered: Note) -> SignedHead:
        """Store cosignatures; raises BadCosignature or UnknownCheckpoint."""
        checkpointer = self.require()
        signed = await self._in_thread(lambda: checkpointer.cosign(offered))
        self._tell()
        return signed

    async def find(self, size: int) -> SignedHead:
        """The checkpoint of exactly this size; raises UnknownCheckpoint."""
        checkpointer = self.require()
        return await self._in_thread(lambda: checkpointer.find(size))

    # Signing.

    def _signer(self) -> Signer | None:
        origin = log_origin(self._log.log_id)
        if self._config.signer is not None and self._config.signer.path is not None:
            return RemoteSigner(self._config.signer.path, origin)
        if self._config.signing_key is not None:
            return LocalSigner(load_signing_key(self._config.signing_key), origin)
        log.warning("no signing_key: the log's checkpoints are not signed, so nothing is proven")
        return None

    def _on_commit(self, _group: Sequence[Committed]) -> None:
        self._appended.set()

    async def _run(self) -> None:
        while not self._stopping.is_set():
            if not self._unsigned():
                self._appended.clear()
                await first_of(self._appended.wait(), self._stopping.wait())
                continue
            self._hurried.clear()
            interval = HURRY_INTERVAL_S if self._waiting else SIGN_INTERVAL_S
            left_s = self._tried_at + interval - self._clock.monotonic()
            if left_s > 0:
                await first_of(self._hurried.wait(), self._stopping.wait(), timeout_s=left_s)
            else:
                await self._turn()

    def _unsigned(self) -> bool:
        checkpointer = self.checkpointer
        return checkpointer is not None and self.tree.refusal is None and checkpointer.unsigned > 0

    async def _turn(self) -> None:
        checkpointer = self.checkpointer
        if checkpointer is None:
            return
        try:
            fresh = await self._in_thread(checkpointer.turn)
        except (TreeRefused, SignerUnavailable, NotAnExtension, OSError) as error:
            self._could_not(str(error))
        except Exception as error:
            # Whatever it is, the next turn may do better, and who waits must not wait for ever.
            log.exception("signing failed")
            self._could_not(f"signing failed: {error}")
        else:
            self.problem = None
            if fresh:
                self.signed_at = self._clock.monotonic()
                self._tell()
        self._tried_at = self._clock.monotonic()

    def _could_not(self, why: str) -> None:
        if why != self.problem:
            log.error("no checkpoint was signed", extra={"fields": {"why": why}})
        self.problem = why

    def _tell(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def _audit(self, audit: TreeAudit) -> None:
        """Look at the old batches, for as long as there are any, with long rests."""
        loop = asyncio.get_running_loop()
        while not (audit.done or self._stopping.is_set()):
            began = self._clock.monotonic()
            try:
                await loop.run_in_executor(self._audit_pool, audit.step)
            except OSError:
                log.exception("the tree's audit ended: the disk can't be read")
                return
            rest_s = pause_s(self._clock.monotonic() - began)
            await first_of(self._stopping.wait(), timeout_s=rest_s)

    def _close_pools(self) -> None:
        self._pool.shutdown(wait=False)
        self._audit_pool.shutdown(wait=False)

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._pool, work)
