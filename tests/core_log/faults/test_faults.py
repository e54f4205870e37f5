"""The disk loses, tears and reorders what was not synced, fails and fills up: the promise holds."""

import errno
from random import Random
from typing import Any

import pytest

from core_log.log.log_errors import Damaged, DiskFull, LogFailed
from core_log.log.options import Retention
from core_log.log.results import Appended, Refused


def test_what_was_acknowledged_survives_any_crash(kit: Any, seed: int) -> None:
    random = Random(seed)
    for _ in range(60):
        disk = kit.disk(random)
        log = kit.open(disk)
        acknowledged = {}
        sequence = 0
        for _ in range(random.randrange(1, 12)):
            values = [b"%d" % random.randrange(10**9) * 20 for _ in range(random.randrange(1, 4))]
            (outcome,) = kit.append(log, kit.frame(values, sequence=sequence))
            assert isinstance(outcome, Appended)
            acknowledged |= {outcome.base_offset + i: value for i, value in enumerate(values)}
            sequence += len(values)
        log = kit.open(disk.crash())
        found = kit.read_all(log)
        assert {offset: found.get(offset) for offset in acknowledged} == acknowledged


def test_a_crash_in_the_middle_of_a_group_leaves_nothing_half(kit: Any, seed: int) -> None:
    random = Random(seed)
    for _ in range(60):
        disk = kit.disk(random)
        log = kit.open(disk)
        first = [b"first" * 30]
        kit.append(log, kit.frame(first, sequence=0))
        disk.fails["sync"] = errno.EIO
        group = [kit.frame([b"%d" % n * 100], sequence=n) for n in range(1, 6)]
        outcomes = kit.append(log, *group)
        assert {outcome.code for outcome in outcomes} == {"storage_failed"}
        log = kit.open(disk.crash())
        found = kit.read_all(log)
        assert found[0] == first[0]
        assert all(found[n] == b"%d" % n * 100 for n in found if n)


def test_after_a_failed_sync_the_log_stops_and_never_syncs_again(kit: Any) -> None:
    disk = kit.disk()
    log = kit.open(disk)
    kit.append(log, kit.frame([b"kept"], sequence=0))
    disk.fails["sync"] = errno.EIO
    (outcome,) = kit.append(log, kit.frame([b"doubt"], sequence=1))
    assert isinstance(outcome, Refused)
    assert (outcome.code, outcome.retryable) == ("storage_failed", True)
    syncs = disk.syncs
    with pytest.raises(LogFailed, match="restart"):
        log.submit([kit.frame([b"later"], sequence=1)], lambda _: None)
    log.turn()
    log.close()
    assert disk.syncs == syncs
    assert kit.read_all(log) == {0: b"kept"}


def test_what_a_failed_sync_left_in_the_cache_is_written_again_before_it_counts(kit: Any) -> None:
    """The system calls pages clean that it could not write: a restart must not believe them."""
    disk = kit.disk()
    log = kit.open(disk)
    kit.append(log, kit.frame([b"kept"], sequence=0))
    disk.fails["sync"] = errno.EIO
    kit.append(log, kit.frame([b"doubt"], sequence=1))
    log = kit.open(disk.kill())
    assert kit.read_all(log) == {0: b"kept", 1: b"doubt"}
    for number in range(20):
        survivor = disk.kill()
        survivor.random = Random(number)
        again = kit.open(survivor.crash())
        assert kit.read_all(again) == {0: b"kept", 1: b"doubt"}


def test_a_full_disk_refuses_appends_serves_reads_and_comes_back(kit: Any) -> None:
    disk = kit.disk()
    clock = kit.clock()
    log = kit.open(disk, clock)
    kit.append(log, kit.frame([b"kept"], sequence=0))
    disk.room = 300
    (outcome,) = kit.append(log, kit.frame([b"x" * 500], sequence=1))
    assert isinstance(outcome, Refused)
    assert (outcome.code, outcome.retryable) == ("disk_full", True)
    with pytest.raises(DiskFull, match="disk_reserve_bytes"):
        log.submit([kit.frame([b"y"], sequence=1)], lambda _: None)
    assert log.status().disk_full
    assert kit.read_all(log) == {0: b"kept"}
    disk.room = 1 << 20
    clock.advance(1)
    (outcome,) = kit.append(log, kit.frame([b"again"], sequence=1))
    assert isinstance(outcome, Appended)
    assert not log.status().disk_full
    assert kit.read_all(kit.open(disk.crash())) == {0: b"kept", 1: b"again"}


def test_a_batch_that_was_refused_for_space_never_comes_back(kit: Any, seed: int) -> None:
    random = Random(seed)
    for _ in range(40):
        disk = kit.disk(random)
        clock = kit.clock()
        log = kit.open(disk, clock)
        kit.append(log, kit.frame([b"kept"], sequence=0))
        disk.room = random.randrange(0, 1900)
        group = [kit.frame([b"refused %d" % n], sequence=n) for n in range(1, 5)]
        outcomes = kit.append(log, *group)
        assert {outcome.code for outcome in outcomes} == {"disk_full"}
        disk.room = 1 << 20
        if random.random() < 0.5:
            disk.fails["sync"] = errno.EIO
            clock.advance(1)
            kit.append(log, kit.frame([b"doubt" * 100], sequence=1))
        found = kit.read_all(kit.open(disk.crash()))
        assert not [value for value in found.values() if value.startswith(b"refused")]
        assert found[0] == b"kept"


def test_a_repeat_is_recognised_though_the_group_it_came_with_found_no_room(kit: Any) -> None:
    disk = kit.disk()
    log = kit.open(disk)
    repeated = kit.frame([b"kept"], sequence=0)
    kit.append(log, repeated)
    disk.room = 100
    outcomes = kit.append(log, repeated, kit.frame([b"x" * 500], sequence=1))
    assert isinstance(outcomes[0], Appended)
    assert outcomes[0].duplicate
    assert isinstance(outcomes[1], Refused)
    assert outcomes[1].code == "disk_full"


def test_the_reserve_refuses_before_the_disk_is_full(kit: Any) -> None:
    disk = kit.disk()
    disk.room = 15_000
    log = kit.open(disk, disk_reserve_bytes=10_000)
    outcomes = []
    with pytest.raises(DiskFull):  # noqa: PT012 - which append it is depends on sizes
        for sequence in range(100):
            outcomes += kit.append(log, kit.frame([b"z" * 100], sequence=sequence))
    assert all(isinstance(outcome, Appended) for outcome in outcomes)
    assert 9_000 < disk.room < 10_000


def test_a_decision_is_still_recorded_in_the_reserve_so_that_reads_go_on(kit: Any) -> None:
    disk = kit.disk()
    disk.room = 15_000
    log = kit.open(disk, disk_reserve_bytes=10_000)
    with pytest.raises(DiskFull):  # noqa: PT012 - which append it is depends on sizes
        for sequence in range(100):
            kit.append(log, kit.frame([b"z" * 100], sequence=sequence))
    decision = kit.frame([b"allowed"], sequence=0, topic="_audit")
    with pytest.raises(DiskFull):
        kit.append(log, decision, kit.frame([b"z"], sequence=sequence))
    (outcome,) = kit.append(log, decision)
    assert isinstance(outcome, Appended)
    with pytest.raises(DiskFull):  # noqa: PT012 - as above
        for sequence in range(1, 100):
            kit.append(log, kit.frame([b"allowed"], sequence=sequence, topic="_audit"))
    assert 6_500 < disk.room <= 7_500


def test_a_roll_that_finds_no_room_leaves_no_file_behind(kit: Any, seed: int) -> None:
    random = Random(seed)
    disk = kit.disk(random)
    clock = kit.clock()
    log = kit.open(disk, clock)
    sequence = 0
    while log.status().segments == 1:
        length = 300
        if log.status().bytes + 800 > 4096:
            disk.room = 20
            (outcome,) = kit.append(log, kit.frame([b"a" * 700], sequence=sequence))
            assert isinstance(outcome, Refused)
            assert len([name for name in disk.names(kit.folder) if name.endswith(".seg")]) == 1
            disk.room = 1 << 20
            clock.advance(1)
            length = 50
        (outcome,) = kit.append(log, kit.frame([b"a" * length], sequence=sequence))
        assert isinstance(outcome, Appended)
        sequence += 1
    assert len(kit.read_all(kit.open(disk.crash()))) == sequence


def test_short_writes_are_completed(kit: Any) -> None:
    disk = kit.disk(Random(5))
    disk.short_writes = True
    log = kit.open(disk)
    for sequence in range(0, 30, 3):
        frames = [kit.frame([b"%d" % (sequence + n) * 60], sequence=sequence + n) for n in range(3)]
        assert all(isinstance(outcome, Appended) for outcome in kit.append(log, *frames))
    found = kit.read_all(kit.open(disk.crash()))
    assert found == {n: b"%d" % n * 60 for n in range(30)}


@pytest.mark.parametrize("operation", ["write", "sync", "sync_directory", "rename"])
def test_an_error_of_the_disk_at_any_step_loses_nothing_that_was_acknowledged(
    kit: Any, seed: int, operation: Any
) -> None:
    random = Random(seed)
    for _ in range(40):
        disk = kit.disk(random)
        clock = kit.clock()
        log = kit.open(disk, clock, checkpoint_bytes=1500)
        acknowledged = {}
        fails_at = random.randrange(14)
        for sequence in range(14):
            if sequence == fails_at:
                disk.fails[operation] = errno.EIO
            value = b"%d" % random.randrange(10**9) * 30
            try:
                (outcome,) = kit.append(log, kit.frame([value], sequence=sequence))
            except LogFailed:
                break
            if not isinstance(outcome, Appended):
                break
            acknowledged[outcome.base_offset] = value
        disk.fails.clear()
        log = kit.open(disk.crash() if random.random() < 0.5 else disk.kill())
        found = kit.read_all(log)
        assert {offset: found.get(offset) for offset in acknowledged} == acknowledged


def test_a_crash_while_opening_loses_nothing(kit: Any, seed: int) -> None:
    random = Random(seed)
    for _ in range(30):
        disk = kit.disk(random)
        log = kit.open(disk)
        for sequence in range(25):
            kit.append(log, kit.frame([b"%d" % sequence * 50], sequence=sequence))
        for _ in range(3):
            disk = disk.crash()
            operation = random.choice(["write", "sync", "sync_directory"])
            disk.fails[operation] = errno.EIO
            try:
                kit.open(disk)
            except OSError:
                disk.locked.clear()
            disk.fails.clear()
        found = kit.read_all(kit.open(disk.crash()))
        assert found == {n: b"%d" % n * 50 for n in range(25)}


def test_a_start_that_was_seen_never_goes_back(kit: Any, seed: int) -> None:
    random = Random(seed)
    for _ in range(30):
        disk = kit.disk(random)
        clock = kit.clock()
        log = kit.open(disk, clock)
        for sequence in range(12):
            kit.append(log, kit.frame([b"%d" % sequence * 40], sequence=sequence))
        log.clean({"orders": Retention(drop_below={0: 5})}, clock.now_us())
        assert log.start_offset("orders", 0) == 5
        log = kit.open(disk.crash())
        assert log.start_offset("orders", 0) == 5
        assert min(kit.read_all(log)) == 5


@pytest.mark.parametrize("durability", ["interval", "os"])
def test_a_weaker_mode_loses_only_the_end(kit: Any, seed: int, durability: Any) -> None:
    """What is found after a crash is what was appended first, without a gap."""
    random = Random(seed)
    for _ in range(30):
        disk = kit.disk(random)
        log = kit.open(disk, durability=durability)
        appended = {}
        for sequence in range(random.randrange(1, 40)):
            (outcome,) = kit.append(log, kit.frame([b"%d" % sequence * 60], sequence=sequence))
            assert outcome.durability == durability
            appended[outcome.base_offset] = b"%d" % sequence * 60
        sealed = log.status().durable_leaves
        log = kit.open(disk.crash())
        found = kit.read_all(log)
        assert found == {offset: appended[offset] for offset in range(len(found))}
        assert len(found) >= sealed


def test_an_interval_log_syncs_when_its_interval_has_passed(kit: Any) -> None:
    disk = kit.disk()
    clock = kit.clock()
    log = kit.open(disk, clock, durability="interval", sync_interval_s=0.2)
    kit.append(log, kit.frame([b"soon"], sequence=0))
    assert log.status().durable_leaves == 0
    clock.advance(0.2)
    log.turn()
    assert log.status().durable_leaves == 1
    assert kit.read_all(kit.open(disk.crash())) == {0: b"soon"}


def test_a_batch_that_the_disk_cannot_read_is_an_error_with_its_offsets(kit: Any) -> None:
    disk = kit.disk()
    log = kit.open(disk)
    for sequence in range(3):
        kit.append(log, kit.frame([b"a", b"b"], sequence=sequence * 2))
    disk.fails["read"] = errno.EIO
    with pytest.raises(Damaged, match="the disk cannot read") as caught:
        log.read("orders", 0, 2, 100)
    assert (caught.value.first, caught.value.end) == (2, 4)
    assert len(kit.read_all(log)) == 6
