"""The spool's files: what was stored is found again, whatever the disk and the power do."""

import errno
import os

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from sidecar.spool.spool_files import FileLayer, SpoolFailed, SpoolFiles, SpoolFull


class FaultyLayer(FileLayer):
    """Fails when told to; writes only a part first, as a full disk does."""

    def __init__(self):
        self.write_error = None
        self.sync_error = None
        self.short = False

    def write(self, descriptor, data):
        if self.write_error is not None:
            if len(data) > 8:
                os.write(descriptor, bytes(data[: len(data) // 2]))
            raise OSError(self.write_error, os.strerror(self.write_error))
        if self.short and len(data) > 1:
            return super().write(descriptor, data[: max(1, len(data) // 3)])
        return super().write(descriptor, data)

    def sync(self, descriptor):
        if self.sync_error is not None:
            raise OSError(self.sync_error, os.strerror(self.sync_error))
        super().sync(descriptor)


def opened(folder, layer=None, segment_bytes=400):
    spool, found = SpoolFiles(folder, segment_bytes=segment_bytes, files=layer), []
    spool.open(found.append)
    return spool, found


def test_what_was_stored_is_found_in_order_and_what_was_marked_is_not(tmp_path):
    spool, _ = opened(tmp_path)
    positions = spool.append([(0, b"a"), (1, b"b"), (2, b"c")], 7)
    spool.mark(positions[1:2], 8)
    spool.close()
    again, found = opened(tmp_path)
    assert [(each.order, bytes(each.frame), each.written_us) for each in found] == [
        (0, b"a", 7),
        (2, b"c", 7),
    ]
    assert [each.position for each in found] == [positions[0], positions[2]]
    assert again.live == 2
    assert again.next_order == 3
    again.close()


def test_a_record_is_read_by_its_position(tmp_path):
    spool, _ = opened(tmp_path)
    (position,) = spool.append([(5, b"frame")], 9)
    stored = spool.read(position)
    assert (stored.order, stored.frame, stored.written_us) == (5, b"frame", 9)
    assert spool.read(position + 8) is None
    assert spool.read(1 << 60) is None
    spool.close()


def test_segments_go_from_the_oldest_on_when_all_in_them_is_settled(tmp_path):
    spool, _ = opened(tmp_path)
    positions = [spool.append([(at, b"x" * 150)], 0)[0] for at in range(6)]
    used, files = spool.bytes_used, len(list(tmp_path.iterdir()))
    spool.mark(positions[2:], 0)
    assert len(list(tmp_path.iterdir())) >= files, "an older one still holds live frames"
    spool.mark(positions[:2], 0)
    assert spool.live == 0
    assert spool.bytes_used < used
    assert len(list(tmp_path.iterdir())) < files
    spool.close()


def test_a_drained_spool_gives_its_last_segment_back_too(tmp_path):
    spool, _ = opened(tmp_path, segment_bytes=1 << 24)
    positions = spool.append([(0, b"x" * (2 << 20))], 0)
    spool.mark(positions, 0)
    assert spool.bytes_used < 100
    spool.close()


def test_a_torn_tail_is_cut_and_nothing_before_it(tmp_path):
    spool, _ = opened(tmp_path)
    spool.append([(0, b"a"), (1, b"b")], 0)
    spool.close()
    path = max(tmp_path.iterdir())
    path.write_bytes(path.read_bytes()[:-3])
    again, found = opened(tmp_path)
    assert [bytes(each.frame) for each in found] == [b"a"]
    assert again.damaged_bytes == 0
    again.close()


def test_damage_before_sound_records_is_counted_and_passed_over(tmp_path):
    spool, _ = opened(tmp_path)
    spool.append([(0, b"a" * 40), (1, b"b"), (2, b"c")], 0)
    spool.close()
    path = max(tmp_path.iterdir())
    data = bytearray(path.read_bytes())
    data[50] ^= 1
    path.write_bytes(bytes(data))
    again, found = opened(tmp_path)
    assert [bytes(each.frame) for each in found] == [b"b", b"c"]
    assert again.damaged_bytes > 0
    again.close()


def test_a_full_disk_refuses_whole_and_works_again_when_there_is_room(tmp_path):
    layer = FaultyLayer()
    spool, _ = opened(tmp_path, layer)
    spool.append([(0, b"a")], 0)
    layer.write_error = errno.ENOSPC
    with pytest.raises(SpoolFull):
        spool.append([(1, b"b" * 100)], 0)
    layer.write_error = None
    spool.append([(2, b"c")], 0)
    spool.close()
    _, found = opened(tmp_path)
    assert [bytes(each.frame) for each in found] == [b"a", b"c"]


def test_a_full_disk_at_a_new_segment_leaves_the_old_one_in_use(tmp_path):
    layer = FaultyLayer()
    spool, _ = opened(tmp_path, layer)
    spool.append([(0, b"a" * 300)], 0)
    layer.write_error = errno.ENOSPC
    with pytest.raises(SpoolFull):
        spool.append([(1, b"b" * 300)], 0)
    layer.write_error = None
    spool.append([(2, b"c" * 300)], 0)
    spool.close()
    _, found = opened(tmp_path)
    assert [each.order for each in found] == [0, 2]


def test_marks_that_found_no_room_are_written_with_the_next_ones(tmp_path):
    layer = FaultyLayer()
    spool, _ = opened(tmp_path, layer, segment_bytes=1 << 20)
    positions = spool.append([(at, b"x") for at in range(3)], 0)
    layer.write_error = errno.ENOSPC
    with pytest.raises(SpoolFull):
        spool.mark(positions[:1], 0)
    layer.write_error = None
    spool.mark(positions[1:2], 0)
    spool.close()
    _, found = opened(tmp_path)
    assert [each.order for each in found] == [2]


@pytest.mark.parametrize("kind", ["write", "sync"])
def test_after_an_io_error_the_spool_takes_nothing_more(tmp_path, kind):
    layer = FaultyLayer()
    spool, _ = opened(tmp_path, layer)
    setattr(layer, f"{kind}_error", errno.EIO)
    with pytest.raises(SpoolFailed):
        spool.append([(0, b"a")], 0)
    setattr(layer, f"{kind}_error", None)
    with pytest.raises(SpoolFailed):
        spool.append([(1, b"b")], 0)
    assert spool.failed is not None
    spool.close()


def test_short_writes_are_continued(tmp_path):
    layer = FaultyLayer()
    layer.short = True
    spool, _ = opened(tmp_path, layer)
    spool.append([(0, b"abcdefgh" * 10)], 0)
    spool.close()
    _, found = opened(tmp_path)
    assert [bytes(each.frame) for each in found] == [b"abcdefgh" * 10]


class SpoolMachine(RuleBasedStateMachine):
    """Any mix of appends, marks, reopenings and full disks agrees with a dictionary."""

    @initialize(size=st.sampled_from([200, 1000, 1 << 20]))
    def begin(self, size):
        import tempfile

        self.folder = tempfile.TemporaryDirectory()
        self.path = __import__("pathlib").Path(self.folder.name)
        self.size, self.layer = size, FaultyLayer()
        self.model, self.order = {}, 0
        self.spool, _ = opened(self.path, self.layer, self.size)

    def teardown(self):
        if hasattr(self, "spool"):
            self.reopen()
            self.spool.close()
            self.folder.cleanup()

    @rule(sizes=st.lists(st.integers(0, 300), min_size=1, max_size=4))
    def append(self, sizes):
        frames = [(self.order + at, bytes([at]) * size) for at, size in enumerate(sizes)]
        self.order += len(frames)
        for position, (order, frame) in zip(self.spool.append(frames, 0), frames, strict=True):
            self.model[position] = (order, frame)

    @rule(sizes=st.lists(st.integers(20, 300), min_size=1, max_size=4))
    def append_to_a_full_disk(self, sizes):
        self.layer.write_error = errno.ENOSPC
        with pytest.raises(SpoolFull):
            self.spool.append([(self.order, b"x" * size) for size in sizes], 0)
        self.layer.write_error = None

    @rule(data=st.data())
    def mark(self, data):
        if self.model:
            chosen = data.draw(st.sets(st.sampled_from(sorted(self.model)), min_size=1))
            self.spool.mark(sorted(chosen), 0)
            for position in chosen:
                del self.model[position]

    @rule(data=st.data())
    def read(self, data):
        if self.model:
            position = data.draw(st.sampled_from(sorted(self.model)))
            stored = self.spool.read(position)
            assert (stored.order, stored.frame) == self.model[position]

    @rule()
    def reopen(self):
        self.spool.close()
        self.spool, found = opened(self.path, self.layer, self.size)
        assert {each.position: (each.order, bytes(each.frame)) for each in found} == self.model
        assert self.spool.live == len(self.model)
        assert self.spool.damaged_bytes == 0


SpoolMachine.TestCase.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
TestSpool = SpoolMachine.TestCase


def test_a_full_disk_at_the_start_finds_what_is_there_and_says_that_it_is_full(tmp_path):
    spool, _ = opened(tmp_path)
    positions = spool.append([(0, b"a" * 300), (1, b"b" * 300)], 0)
    spool.close()
    layer, found = FaultyLayer(), []
    layer.write_error = errno.ENOSPC
    full = SpoolFiles(tmp_path, segment_bytes=400, files=layer)
    with pytest.raises(SpoolFull):
        full.open(found.append)
    assert [each.order for each in found] == [0, 1]
    assert full.failed is None
    assert full.read(positions[0]).frame == b"a" * 300
    with pytest.raises(SpoolFull):
        full.append([(2, b"c")], 0)
    with pytest.raises(SpoolFull):
        full.probe()
    # Frames that were sent make room although no mark can be written.
    full.mark(positions, 0)
    assert full.bytes_used == 0
    assert list(tmp_path.glob("*.spool")) == []
    layer.write_error = None
    full.probe()
    (position,) = full.append([(2, b"c")], 0)
    full.close()
    again, found = opened(tmp_path)
    assert [(each.order, each.position) for each in found] == [(2, position)]
    assert again.damaged_bytes == 0
    again.close()


def test_a_new_folder_on_a_full_disk_can_be_begun_later(tmp_path):
    layer = FaultyLayer()
    layer.write_error = errno.ENOSPC
    spool = SpoolFiles(tmp_path / "a" / "spool", segment_bytes=400, files=layer)
    with pytest.raises(SpoolFull):
        spool.open(lambda _: None)
    layer.write_error = None
    spool.append([(0, b"a")], 0)
    spool.close()
    _, found = opened(tmp_path / "a" / "spool")
    assert [each.order for each in found] == [0]


def test_marks_of_a_segment_that_is_gone_never_hit_a_new_one(tmp_path):
    layer = FaultyLayer()
    spool, _ = opened(tmp_path, layer, segment_bytes=1 << 20)
    (first,) = spool.append([(0, b"a")], 0)
    spool.close()
    layer.write_error = errno.ENOSPC
    spool = SpoolFiles(tmp_path, segment_bytes=1 << 20, files=layer)
    with pytest.raises(SpoolFull):
        spool.open(lambda _: None)
    spool.mark([first], 0)
    layer.write_error = None
    (second,) = spool.append([(1, b"b")], 0)
    assert second != first
    spool.mark([], 0)
    spool.close()
    _, found = opened(tmp_path)
    assert [each.order for each in found] == [1]


class UnsyncedLayer(FaultyLayer):
    """Syncs fail for the first `failing` times."""

    failing = 0

    def sync(self, descriptor):
        if self.failing:
            self.failing -= 1
            raise OSError(self.sync_error, os.strerror(self.sync_error))
        os.fdatasync(descriptor)


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC])
def test_what_could_not_be_synced_is_erased_so_that_no_later_run_sends_it(tmp_path, error):
    layer = UnsyncedLayer()
    spool, _ = opened(tmp_path, layer)
    spool.append([(0, b"a")], 0)
    layer.sync_error, layer.failing = error, 1
    with pytest.raises((SpoolFailed, SpoolFull)) as caught:
        spool.append([(1, b"refused")], 0)
    assert not getattr(caught.value, "unsure", False)
    assert (spool.failed is None) == (error == errno.ENOSPC), "a full disk is not a broken one"
    spool.close()
    again, found = opened(tmp_path)
    assert [each.order for each in found] == [0]
    assert again.damaged_bytes == 0
    again.close()


def test_where_even_that_fails_it_is_unsure(tmp_path):
    layer = UnsyncedLayer()
    spool, _ = opened(tmp_path, layer)
    layer.sync_error, layer.failing = errno.EIO, 2
    with pytest.raises(SpoolFailed) as caught:
        spool.append([(0, b"a")], 0)
    assert caught.value.unsure
    spool.close()
