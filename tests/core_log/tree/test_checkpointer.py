"""Only synced leaves and only extensions are signed; segments' ends and cosigned ones are kept."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from core_log.log.files import OsFiles
from core_log.log.log import Log
from core_log.log.options import LogOptions
from core_log.tree.checkpoint_notes import CheckpointNotes
from core_log.tree.checkpointer import RECENT_MAX, Checkpointer, UnknownCheckpoint
from core_log.tree.signing import LocalSigner, NotAnExtension, SignerUnavailable, verify
from core_log.tree.tree import TreeRefused
from log_format.checkpoint_note import cosign, log_origin, verified_signatures
from log_format.note import Note, Signature, SignatureType, VerifierKey
from log_format.tree import verify_consistency

CORE = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
WITNESS = Ed25519PrivateKey.from_private_bytes(bytes(range(1, 33)))
WITNESS_KEY = VerifierKey(
    "gk", SignatureType.COSIGNATURE_V1, WITNESS.public_key().public_bytes_raw()
)


class Bench:
    """A log that is moved by hand, and its checkpoints."""

    def __init__(self, folder: Path, frames: Any, clock: Any, **options: Any) -> None:
        chosen = {"segment_bytes": 16_384, "disk_reserve_bytes": 0, "hot_tail_bytes": 0}
        self.folder = folder
        self.frames = frames
        self.clock = clock
        self.options = LogOptions(**{**chosen, **options})
        self.signer: Any = None
        self.open()

    def open(self) -> None:
        self.log = Log.open(self.folder, self.options, clock=self.clock, threads=False)
        self.signer = self.signer or LocalSigner(CORE, log_origin(self.log.log_id))
        assert self.log.tree is not None
        self.checkpointer = Checkpointer(
            self.log, self.log.tree, OsFiles(), self.folder, self.signer, self.clock
        )
        self.checkpointer.open()

    def append(self, count: int) -> None:
        for _ in range(count):
            self.log.submit([self.frames.frame()], lambda _: None)
        self.log.turn()

    def notes(self) -> CheckpointNotes:
        return CheckpointNotes(OsFiles(), self.folder / "tree", log_origin(self.log.log_id))

    def cosigned(self) -> Note:
        now_s = self.clock.now_us() // 1_000_000
        return cosign(self.checkpointer.newest.note, WITNESS_KEY, WITNESS.sign, now_s)


@pytest.fixture
def bench(tmp_path: Path, frames: Any, manual_clock: Any) -> Bench:
    return Bench(tmp_path / "log", frames, manual_clock)


def test_each_turn_signs_what_was_appended_and_nothing_twice(bench: Bench) -> None:
    checkpointer = bench.checkpointer
    assert checkpointer.turn()
    assert checkpointer.newest.size == 0
    bench.append(5)
    assert checkpointer.unsigned == 5
    assert checkpointer.turn()
    assert not checkpointer.turn()
    newest = checkpointer.newest
    assert (newest.size, checkpointer.unsigned, checkpointer.signed_count) == (5, 0, 2)
    assert newest.head.root == bench.log.tree.root(5)
    assert verified_signatures(newest.note, [bench.signer.key()], verify)
    assert bench.notes().load_newest() == newest


def test_leaves_that_are_not_synced_are_not_signed(
    tmp_path: Path, frames: Any, manual_clock: Any
) -> None:
    bench = Bench(tmp_path / "log", frames, manual_clock, durability="os")
    bench.checkpointer.turn()
    bench.append(5)
    assert not bench.checkpointer.turn()
    assert bench.checkpointer.unsigned == 5
    manual_clock.seconds += 100
    bench.log.turn()
    assert bench.checkpointer.turn()
    assert bench.checkpointer.newest.size == 5


def test_a_segments_end_that_was_signed_before_it_was_one_is_kept_too(bench: Bench) -> None:
    while len(bench.log.segment_ends()) < 4:
        bench.append(1)
        bench.checkpointer.turn()
    assert set(bench.log.segment_ends()) <= set(bench.notes().sizes())


def test_every_segments_end_is_signed_and_kept(bench: Bench) -> None:
    for _ in range(4):
        bench.append(40)
    bench.checkpointer.turn()
    ends = bench.log.segment_ends()
    assert len(ends) > 2
    assert bench.notes().sizes() == ends
    heads = [bench.notes().load(size).head for size in ends]
    for old, new in pairwise(heads):
        proof = bench.log.tree.consistency(old.size, new.size)
        assert verify_consistency(old.size, new.size, old.root, new.root, proof)
    assert bench.checkpointer.find(ends[0]).size == ends[0]


def test_the_tiles_of_a_checkpoint_are_on_disk_before_it_is(bench: Bench) -> None:
    saved = []

    class Watching(LocalSigner):
        def sign(self, *args: Any) -> Note:
            saved.append(bench.log.tree.saved)
            return super().sign(*args)

    bench.signer = Watching(CORE, log_origin(bench.log.log_id))
    bench.log.close()
    bench.open()
    bench.append(7)
    bench.checkpointer.turn()
    assert saved == [7]


def test_a_tree_that_does_not_extend_the_last_one_is_not_signed(bench: Bench) -> None:
    bench.append(5)
    bench.checkpointer.turn()
    newest = bench.checkpointer.newest
    forged = type(newest.head)(newest.head.origin, 5, bytes(32))
    bench.checkpointer.newest = type(newest)(newest.note, forged)
    bench.append(1)
    with pytest.raises(TreeRefused, match="does not extend the one of 5"):
        bench.checkpointer.turn()
    assert bench.log.tree.refusal
    assert bench.notes().load_newest() == newest


def test_a_signer_that_refuses_or_signs_something_else_signs_nothing(bench: Bench) -> None:
    class Refusing(LocalSigner):
        def sign(self, *args: Any) -> Note:
            raise NotAnExtension("9 leaves were signed")

    class Deviating(LocalSigner):
        def sign(self, head: Any, *args: Any) -> Note:
            return Note(head.text, (Signature("other", bytes(4), bytes(64)),))

    bench.append(3)
    origin = log_origin(bench.log.log_id)
    bench.checkpointer._signer = Deviating(CORE, origin)
    with pytest.raises(SignerUnavailable, match="did not sign what it was asked to"):
        bench.checkpointer.turn()
    bench.checkpointer._signer = Refusing(CORE, origin)
    with pytest.raises(TreeRefused, match="the signer refuses: 9 leaves were signed"):
        bench.checkpointer.turn()
    assert bench.checkpointer.newest is None
    assert bench.log.tree.refusal


def test_a_cosignature_joins_its_checkpoint_wherever_that_is(bench: Bench) -> None:
    bench.append(3)
    bench.checkpointer.turn()
    older = bench.cosigned()
    bench.append(3)
    bench.checkpointer.turn()
    assert bench.checkpointer.cosign(older).cosignatures == 1
    assert bench.checkpointer.newest.cosignatures == 0
    assert bench.checkpointer.best(2).size == 3
    assert bench.checkpointer.best(4).size == 6
    assert bench.checkpointer.newest_with(2, 1).size == 3
    assert bench.checkpointer.newest_with(4, 1) is None
    assert bench.checkpointer.best(6) is None
    bench.checkpointer.cosign(bench.cosigned())
    assert bench.checkpointer.best(2).size == 6
    assert bench.notes().load_newest().cosignatures == 1


def test_cosigned_checkpoints_are_kept_one_a_minute(bench: Bench) -> None:
    for _ in range(40):
        bench.append(1)
        bench.checkpointer.turn()
        bench.checkpointer.cosign(bench.cosigned())
        bench.clock.us += 20_000_000
    sizes = set(bench.notes().sizes()) - set(bench.log.segment_ends())
    assert 11 <= len(sizes) <= 14
    assert all(bench.notes().load(size).cosignatures == 1 for size in sizes)


def test_what_is_too_old_to_be_cosigned_or_was_never_signed_is_unknown(bench: Bench) -> None:
    bench.checkpointer.turn()
    first = bench.cosigned()
    for _ in range(RECENT_MAX):
        bench.append(1)
        bench.checkpointer.turn()
    with pytest.raises(UnknownCheckpoint, match="cosign the newest one"):
        bench.checkpointer.cosign(first)
    with pytest.raises(UnknownCheckpoint, match="no checkpoint of 9999 leaves"):
        bench.checkpointer.find(9999)


def test_it_goes_on_after_a_restart_from_what_was_signed(bench: Bench, caplog: Any) -> None:
    bench.append(3)
    bench.checkpointer.turn()
    bench.checkpointer.cosign(bench.cosigned())
    newest = bench.checkpointer.newest
    bench.log.close()
    bench.open()
    assert bench.checkpointer.newest == newest
    assert not bench.checkpointer.turn()
    bench.append(2)
    assert bench.checkpointer.turn()
    assert "not under this core's key" not in caplog.text
    bench.log.close()
    bench.signer = LocalSigner(WITNESS, log_origin(bench.log.log_id))
    bench.open()
    assert "not under this core's key" in caplog.text
