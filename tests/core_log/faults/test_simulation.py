"""Clients, clock and disk at random, from one seed: whatever happens, the log keeps its word.

A failing run ends with a line `REPLAY SIDEGATE_SEED=… pytest '…'` that plays it again, step by
step.
"""

import errno
from collections import Counter, deque
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest

from core_log.log.log_errors import DiskFull, LogError, Overloaded
from core_log.log.options import Retention
from core_log.log.producers import REPEATS_MAX
from core_log.log.results import Appended, Refused
from core_log.tree.checkpoint_notes import CheckpointNotes, SignedHead
from log_format.checkpoint_note import TreeHead, log_origin
from log_format.frame import Frame
from log_format.note import Note, Signature
from log_format.sequence import SEQUENCE_MAX, sequence_after
from log_format.tree import EMPTY_ROOT, root_of, verify_inclusion

TOPICS = (("orders", 0), ("orders", 1), ("audit", 0))


@dataclass
class Sent:
    """A batch and what its sender knows of it."""

    frame: Frame
    values: tuple[bytes, ...]
    epoch: int
    sequence: int
    offset: int | None = None
    leaf: int | None = None


@dataclass
class Lane:
    """One producer in one partition, as the sidecar keeps it: one batch in doubt at a time."""

    principal: str
    producer_id: int
    topic: str
    partition: int
    epoch: int = 0
    sequence: int = 0
    doubt: Sent | None = None
    waiting: bool = False
    known: deque = field(default_factory=lambda: deque(maxlen=REPEATS_MAX))


class World:
    """Everything there is, moved by one source of chance."""

    def __init__(self, kit: Any, seed: int, **options: Any) -> None:
        self.random = Random(seed)
        self.kit = kit
        self.clock = kit.clock()
        self.disk = kit.disk(self.random)
        self.options = options
        self.counter = 0
        self.happened: Counter[str] = Counter()
        self.committed: dict[tuple[str, int], dict[int, bytes]] = {key: {} for key in TOPICS}
        self.starts = dict.fromkeys(TOPICS, 0)
        self.ever_in_doubt: set[bytes] = set()
        self.lanes = [
            Lane(principal, producer_id, *key)
            for principal in ("billing", "shop")
            for producer_id in (1, 2)
            for key in TOPICS
        ]
        # Sequences wrap around at 2^31; a lane that begins near there will.
        self.log = kit.open(self.disk, self.clock, **options)
        self.signed: dict[int, bytes] = {0: EMPTY_ROOT}

    # What can happen.

    def step(self) -> None:
        acts = {
            self.send: 40,
            self.turn: 25,
            self.repeat: 6,
            self.leave_a_gap: 4,
            self.use_an_old_epoch: 3,
            self.begin_an_epoch: 2,
            self.pass_time: 10,
            self.set_the_clock: 2,
            self.clean: 4,
            self.break_the_disk: 2,
            self.fill_the_disk: 2,
            self.make_room: 3,
            self.lose_power: 3,
            self.kill: 2,
            self.restart: 2,
            self.look_up_a_time: 3,
            self.sign: 6,
            self.lose_a_tile: 1,
            self.check: 2,
        }
        (act,) = self.random.choices(list(acts), weights=list(acts.values()))
        self.happened[act.__name__] += 1
        act()
        if self.log.status().failed:
            self.happened["failed"] += 1
            self.random.choice([self.kill, self.lose_power])()

    def new_values(self) -> tuple[bytes, ...]:
        values = []
        for _ in range(self.random.randrange(1, 4)):
            self.counter += 1
            values.append(b"%09d" % self.counter * self.random.randrange(1, 40))
        return tuple(values)

    def make(self, lane: Lane, epoch: int, sequence: int, values: tuple[bytes, ...]) -> Sent:
        frame = self.kit.frame(
            values,
            sequence=sequence,
            topic=lane.topic,
            partition=lane.partition,
            producer_id=lane.producer_id,
            epoch=epoch,
            principal=lane.principal,
        )
        return Sent(frame, values, epoch, sequence)

    def submit(self, frames: list[Frame], done: Any) -> bool:
        try:
            self.log.submit(frames, done)
        except (DiskFull, Overloaded):
            self.happened["not taken"] += 1
            return False
        return True

    def free_lane(self) -> Lane | None:
        free = [lane for lane in self.lanes if not lane.waiting]
        return self.random.choice(free) if free else None

    def send(self) -> None:
        lane = self.free_lane()
        if lane is None:
            return
        sent = lane.doubt or self.make(lane, lane.epoch, lane.sequence, self.new_values())
        lane.doubt = sent

        def done(outcomes: Any) -> None:
            lane.waiting = False
            self.learn(lane, sent, outcomes[0])

        lane.waiting = self.submit([sent.frame], done)

    def learn(self, lane: Lane, sent: Sent, outcome: Appended | Refused) -> None:
        if isinstance(outcome, Refused):
            assert outcome.code in ("disk_full", "storage_failed"), outcome
            if outcome.code == "storage_failed":
                self.ever_in_doubt.update(sent.values)
            elif not self.ever_in_doubt.issuperset(sent.values):
                lane.doubt = None  # Refused for certain: the client may give it up.
            return
        lane.doubt = None
        lane.sequence = sequence_after(sent.sequence, len(sent.values))
        sent.offset, sent.leaf = outcome.base_offset, outcome.leaf
        lane.known.append(sent)
        truth = self.committed[lane.topic, lane.partition]
        for number, value in enumerate(sent.values):
            assert truth.get(outcome.base_offset + number, value) == value
            truth[outcome.base_offset + number] = value

    def repeat(self) -> None:
        lane = self.free_lane()
        if lane is None or lane.doubt or not lane.known:
            return
        sent = self.random.choice(lane.known)

        def done(outcomes: Any) -> None:
            (outcome,) = outcomes
            if isinstance(outcome, Refused):
                assert outcome.code == "storage_failed"
            else:
                assert outcome.duplicate
                assert (outcome.base_offset, outcome.leaf) == (sent.offset, sent.leaf)

        if sent.epoch == lane.epoch:
            self.submit([sent.frame], done)

    def leave_a_gap(self) -> None:
        lane = self.free_lane()
        if lane is None or lane.doubt:
            return
        ahead = (lane.sequence + self.random.randrange(1, 9)) & SEQUENCE_MAX
        sent = self.make(lane, lane.epoch, ahead, self.new_values())
        self.expect_refusal(sent, "sequence_gap", "expected_sequence", lane.sequence)

    def use_an_old_epoch(self) -> None:
        lane = self.free_lane()
        if lane is None or lane.doubt or lane.epoch == 0 or not lane.known:
            return
        sent = self.make(lane, lane.epoch - 1, 0, self.new_values())
        self.expect_refusal(sent, "fenced", "current_epoch", lane.epoch)

    def expect_refusal(self, sent: Sent, code: str, member: str, value: int) -> None:
        def done(outcomes: Any) -> None:
            (outcome,) = outcomes
            assert isinstance(outcome, Refused)
            if outcome.code != "storage_failed":
                assert (outcome.code, outcome.members) == (code, {member: value})

        self.submit([sent.frame], done)

    def begin_an_epoch(self) -> None:
        lane = self.free_lane()
        if lane is not None and lane.doubt is None and lane.known:
            lane.epoch += 1
            lane.sequence = 0
            lane.known.clear()

    def turn(self) -> None:
        self.log.turn()

    def pass_time(self) -> None:
        self.clock.advance(self.random.choice([0.01, 0.3, 2, 40, 4000]))

    def set_the_clock(self) -> None:
        self.clock.us += self.random.choice([-1, 1]) * self.random.randrange(10**12)

    def clean(self) -> None:
        topic = self.random.choice(["orders", "audit"])
        retention = self.random.choice(
            [
                Retention(age_us=self.random.randrange(1, 10**10)),
                Retention(bytes=self.random.randrange(500, 20_000)),
                Retention(drop_below={0: self.log.end_offset(topic, 0)}),
            ]
        )
        try:
            self.log.clean({topic: retention}, self.clock.now_us())
        except LogError:
            self.happened["clean failed"] += 1
        self.log.turn()

    def break_the_disk(self) -> None:
        operation = self.random.choice(["write", "sync", "sync_directory", "rename"])
        self.disk.fails[operation] = errno.EIO

    def fill_the_disk(self) -> None:
        self.disk.room = self.random.randrange(0, 3000)

    def make_room(self) -> None:
        self.disk.room = 1 << 30
        self.clock.advance(1)

    def lose_power(self) -> None:
        self.reopen(self.disk.crash())

    def kill(self) -> None:
        self.reopen(self.disk.kill())

    def restart(self) -> None:
        self.disk.fails.clear()
        self.log.close()
        if self.log.status().failed:
            self.lose_power()
            return
        room = self.disk.room
        self.disk.room = 1 << 30
        self.log = self.kit.open(self.disk, self.clock, **self.options)
        assert not self.log.recovery.cuts
        self.disk.room = room
        self.check()

    def reopen(self, disk: Any) -> None:
        """The process is gone: what was not answered is in doubt."""
        for lane in self.lanes:
            lane.waiting = False
            if lane.doubt is not None:
                self.ever_in_doubt.update(lane.doubt.values)
        self.disk = disk
        self.disk.room = max(self.disk.room, 100_000)
        self.log = self.kit.open(disk, self.clock, **self.options)
        self.check()

    def look_up_a_time(self) -> None:
        key = self.random.choice(TOPICS)
        time_us = self.clock.now_us() - self.random.randrange(-(10**9), 10**11)
        found = self.log.offset_for_time(*key, time_us)
        assert self.log.start_offset(*key) <= found <= self.log.end_offset(*key)

    def sign(self) -> None:
        """Sign a checkpoint of what is synced, as the core does: tiles first, then the note."""
        tree, size = self.log.tree, self.log.status().durable_leaves
        notes = CheckpointNotes(self.disk, self.kit.folder / "tree", log_origin(self.log.log_id))
        try:
            tree.save(size)
            head = TreeHead(log_origin(self.log.log_id), size, tree.root(size))
            self.signed[size] = head.root
            note = Note(head.text, (Signature(head.origin, bytes(4), bytes(64)),))
            notes.save_newest(SignedHead(note, head))
        except OSError:
            self.happened["sign failed"] += 1
        else:
            tree.signed = size

    def lose_a_tile(self) -> None:
        tiles = sorted(path for path in self.disk.names_now if "tile" in path.parts)
        if tiles:
            self.disk.remove(self.random.choice(tiles))

    # What must hold.

    def check(self) -> None:
        seen: Counter[bytes] = Counter()
        for key in TOPICS:
            found = self.kit.read_all(self.log, *key)
            start = self.log.start_offset(*key)
            assert start >= self.starts[key], "a start went back"
            self.starts[key] = start
            for offset, value in self.committed[key].items():
                if offset >= start:
                    assert found.get(offset) == value, f"{key} lost {offset}"
            for offset, value in found.items():
                if offset not in self.committed[key]:
                    assert value in self.ever_in_doubt, f"{key} holds what nobody sent at {offset}"
            seen.update(found.values())
        assert not [value for value, times in seen.items() if times > 1], "a message stands twice"
        self.check_tree()

    def check_tree(self) -> None:
        tree, size = self.log.tree, self.log.status().leaves
        assert tree.refusal is None
        assert tree.size == size
        hashes = list(tree.leaves.hashes(0, size))
        assert None not in hashes
        assert tree.root(size) == root_of(hashes), "the tree is not that of the log"
        greatest = max(self.signed)
        assert tree.root(greatest) == self.signed[greatest], "what was signed has changed"
        leaf = self.random.randrange(size) if size else None
        if leaf is not None:
            proof = tree.inclusion(leaf, size)
            assert verify_inclusion(hashes[leaf], leaf, size, proof, tree.root(size))


def run(kit: Any, seed: int, steps: int, **options: Any) -> World:
    world = World(kit, seed, **options)
    for _ in range(steps):
        world.step()
    world.check()
    return world


@pytest.mark.parametrize("part", range(6))
def test_the_log_keeps_its_word_whatever_happens(kit: Any, seed: int, part: Any) -> None:
    world = run(
        kit,
        seed + part,
        1500,
        checkpoint_bytes=Random(seed + part).choice([1, 3000, 100_000]),
        hot_tail_bytes=Random(seed + part).choice([0, 5000]),
        in_flight_bytes_max=20_000,
    )
    assert world.counter > 100


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("part", range(40))
def test_the_log_keeps_its_word_for_long(kit: Any, seed: int, part: Any) -> None:
    run(kit, seed + part, 20_000, checkpoint_bytes=5000, in_flight_bytes_max=20_000)


def test_the_same_seed_plays_the_same_run(kit: Any) -> None:
    first, second = (run(kit, 7, 400, checkpoint_bytes=3000) for _ in range(2))
    assert first.committed == second.committed
    assert first.happened == second.happened
    assert first.clock.us == second.clock.us


def test_a_run_reaches_every_kind_of_event(kit: Any) -> None:
    world = run(kit, 11, 3000, checkpoint_bytes=3000, in_flight_bytes_max=20_000)
    expected = {"lose_power", "kill", "restart", "clean", "failed", "not taken", "repeat"}
    assert expected <= set(world.happened)
    assert sum(world.starts.values()) > 0
    assert world.log.status().segments > 3
