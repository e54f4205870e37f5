"""Signs what is synced, and keeps what was signed: the work of checkpoints, without a timer.

Each turn: the tiles go to disk, the new tree is held against the last one that was signed, and
only an extension of it is signed. Segments' ends are signed on the way. Imports the log, the notes
on disk and a signer; has no thread of its own.
"""

import logging
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from core_log.clock import Clock
from core_log.log.files import Files
from core_log.log.log import Log
from core_log.log.log_errors import LogError
from core_log.tree.checkpoint_notes import CheckpointNotes, SignedHead, thinned
from core_log.tree.cosignatures import BadCosignature, newest_cosigning, with_cosignatures
from core_log.tree.signing import NotAnExtension, Signer, SignerUnavailable, verify
from core_log.tree.tile_store import TREE_FOLDER
from core_log.tree.tree import Tree
from log_format.checkpoint_note import (
    BadSignature,
    TreeHead,
    log_origin,
    parse_tree_head,
    verified_signatures,
)
from log_format.errors import FormatError
from log_format.note import Note, VerifierKey
from log_format.tree import verify_consistency

RECENT_MAX: Final = 64
"""Checkpoints that can still be cosigned: a minute of a busy log, and witnesses take moments."""
KEEP_EVERY_S: Final = 60
"""Of cosigned checkpoints one a minute is kept when the next one takes its place."""

_log = logging.getLogger("sidegate.core.tree")


class UnknownCheckpoint(LogError):
    """A checkpoint that this core has not signed, or no longer keeps."""

    code = "unknown_checkpoint"


class Checkpointer:
    """One log's checkpoints.

    Invariant: `newest` is on disk and covers synced leaves only; every checkpoint that was ever
    signed extends the one before it. One thread at a time calls `open`, `turn` and `cosign`; any
    thread may look at `newest` and `recent`.
    """

    def __init__(
        self,
        log: Log,
        tree: Tree,
        files: Files,
        directory: Path,
        signer: Signer,
        clock: Clock,
        witnesses: Sequence[VerifierKey] = (),
    ) -> None:
        self._log = log
        self._tree = tree
        self._origin = log_origin(log.log_id)
        self._notes = CheckpointNotes(files, directory / TREE_FOLDER, self._origin)
        self._signer = signer
        self._clock = clock
        self._witnesses = tuple(witnesses)
        self._recent: OrderedDict[int, SignedHead] = OrderedDict()
        self._kept_at: dict[int, int] = {}
        self.newest: SignedHead | None = None
        self.signed_count = 0
        self.cosigned_count = 0

    @property
    def unsigned(self) -> int:
        """Leaves that no checkpoint covers."""
        covered = 0 if self.newest is None else self.newest.size
        return max(self._log.status().leaves - covered, 0)

    def open(self) -> None:
        """Load what was signed before. That the tree extends it was checked when it was opened."""
        self.newest = self._notes.load_newest()
        if self.newest is not None:
            self._recent[self.newest.size] = self.newest
            self._note_other_key(self.newest)
        for size in self._notes.sizes():
            kept = self._notes.load(size)
            time_s = None if kept is None else newest_cosigning(kept)
            if time_s is not None:
                self._kept_at[size] = time_s

    def _note_other_key(self, signed: SignedHead) -> None:
        """Say so where the last checkpoint is not under today's key: witnesses know the old one."""
        try:
            if verified_signatures(signed.note, [self._signer.key()], verify):
                return
            why = "it was signed with another key"
        except SignerUnavailable:
            return
        except BadSignature as error:
            why = str(error)
        fields = {"leaves": signed.size, "why": why}
        _log.error("the last checkpoint is not under this core's key", extra={"fields": fields})

    def turn(self) -> bool:
        """Sign what was synced since; true if there is a new checkpoint.

        Raises TreeRefused, SignerUnavailable, NotAnExtension or OSError.
        """
        self._tree.check()
        synced = min(self._log.status().durable_leaves, self._tree.size)
        last = -1 if self.newest is None else self.newest.size
        ends = {end for end in self._log.segment_ends() if last < end <= synced}
        for size in sorted({*ends, synced}):
            if size > last:
                self._sign(size, keep=size in ends)
        return synced > last

    def _sign(self, size: int, *, keep: bool) -> None:
        self._tree.save(size)
        head = TreeHead(self._origin, size, self._tree.root(size))
        before = None if self.newest is None else self.newest.head
        proof: list[bytes] = []
        if before is not None:
            proof = self._tree.consistency(before.size, size)
            if not verify_consistency(before.size, size, before.root, head.root, proof):
                self._tree.refuse(
                    f"the tree of {size} leaves does not extend the one of {before.size} that "
                    "was signed last"
                )
                self._tree.check()
        note = self._signed(head, before, proof)
        signed = SignedHead(note, head)
        if keep:
            self._notes.keep(signed)
        self._replace_newest(signed)
        self._tree.signed = size
        self.signed_count += 1

    def _signed(self, head: TreeHead, before: TreeHead | None, proof: Sequence[bytes]) -> Note:
        try:
            note = self._signer.sign(head, before, proof)
        except NotAnExtension as refusal:
            note = self._signed_from(refusal, head)
        if note.text != head.text or not verified_signatures(note, [self._signer.key()], verify):
            raise SignerUnavailable("the signer did not sign what it was asked to")
        return note

    def _signed_from(self, refusal: NotAnExtension, head: TreeHead) -> Note:
        """Try again from what the signer has signed last, which may be more than reached us."""
        known = refusal.head
        if known is not None and known.size <= head.size:
            proof = self._tree.consistency(known.size, head.size)
            if verify_consistency(known.size, head.size, known.root, head.root, proof):
                return self._signer.sign(head, known, proof)
        self._tree.refuse(f"the signer refuses: {refusal}")
        self._tree.check()
        raise refusal

    def _replace_newest(self, signed: SignedHead) -> None:
        before = self.newest
        follows = before is not None and before.size != signed.size
        if before is not None and follows and before.size in self._log.segment_ends():
            # Signed before it was known that the segment would end there. Kept before its file is
            # used for the next one: a check misses the checkpoint of a segment's end.
            self._notes.keep(before)
        self._notes.save_newest(signed)
        self.newest = signed
        self._recent[signed.size] = signed
        if len(self._recent) > RECENT_MAX:
            self._recent.popitem(last=False)
        if before is not None and follows:
            self._keep_cosigned(before)

    def _keep_cosigned(self, signed: SignedHead) -> None:
        """Add a cosigned checkpoint to the series, and thin it out."""
        time_s = newest_cosigning(signed)
        if time_s is None or time_s < max(self._kept_at.values(), default=0) + KEEP_EVERY_S:
            return
        self._notes.keep(signed)
        self._kept_at[signed.size] = time_s
        ends = set(self._log.segment_ends())
        now_s = self._clock.now_us() // 1_000_000
        dropped = thinned(self._kept_at.items(), now_s) - ends
        self._notes.drop(dropped)
        for size in dropped:
            del self._kept_at[size]

    def cosign(self, offered: Note) -> SignedHead:
        """Add the cosignatures of a note. Raises BadCosignature or UnknownCheckpoint."""
        try:
            size = parse_tree_head(offered.text).size
        except FormatError as error:
            raise BadCosignature(f"checkpoint: {error}") from error
        held = self._recent.get(size)
        if held is None:
            raise UnknownCheckpoint(
                f"no checkpoint of {size} leaves waits for cosignatures; cosign the newest one"
            )
        now_s = self._clock.now_us() // 1_000_000
        signed = with_cosignatures(held, offered, self._witnesses, now_s=now_s)
        if self.newest is not None and self.newest.size == size:
            self._notes.save_newest(signed)
            self.newest = signed
        elif size in self._notes.sizes():
            self._notes.keep(signed)
        self._recent[size] = signed
        self.cosigned_count += 1
        return signed

    def newest_with(self, leaf: int, cosignatures: int) -> SignedHead | None:
        """The newest checkpoint that covers `leaf` and has so many cosignatures."""
        fitting = [
            each
            for each in list(self._recent.values())
            if each.size > leaf and each.cosignatures >= cosignatures
        ]
        return max(fitting, key=lambda each: each.size, default=None)

    def best(self, leaf: int) -> SignedHead | None:
        """The checkpoint to prove a leaf by: most cosignatures first, then the newest."""
        covering = [each for each in list(self._recent.values()) if each.size > leaf]
        return max(covering, key=lambda each: (each.cosignatures, each.size), default=None)

    def find(self, size: int) -> SignedHead:
        """The checkpoint of exactly this size, if it is kept. May read the disk."""
        found = self._recent.get(size) or self._notes.load(size)
        if found is None:
            raise UnknownCheckpoint(
                f"no checkpoint of {size} leaves is kept; leave `size` out for the newest one"
            )
        return found
