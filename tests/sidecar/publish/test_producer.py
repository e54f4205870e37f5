"""Epochs rise, and never come twice, whatever happens to the process."""

import json
import stat

import pytest

from hosting.lifecycle import StartError
from log_format.sequence import EPOCH_MAX
from sidecar.publish.producer import EPOCHS_RESERVED, ProducerEpoch, ProducerState


@pytest.fixture
def path(tmp_path):
    return tmp_path / "data" / "producer.json"


def test_a_first_start_begins_at_epoch_zero_of_a_random_id(path, tmp_path):
    first = ProducerState(path).current
    other = ProducerState(tmp_path / "other.json").current
    assert first.epoch == other.epoch == 0
    assert first.producer_id != other.producer_id
    assert 0 <= first.producer_id < 2**63


def test_each_raise_is_the_next_epoch_and_is_current(path):
    state = ProducerState(path)
    raised = [state.raise_epoch() for _ in range(3 * EPOCHS_RESERVED)]
    assert [each.epoch for each in raised] == list(range(1, 3 * EPOCHS_RESERVED + 1))
    assert {each.producer_id for each in raised} == {raised[0].producer_id}
    assert state.current == raised[-1]


@pytest.mark.parametrize("raises", [0, 1, EPOCHS_RESERVED - 1, EPOCHS_RESERVED, 200])
def test_after_a_kill_no_epoch_comes_again(path, raises):
    """There is nothing to close: a second state over the same file is what a kill leaves."""
    killed = ProducerState(path)
    used = [killed.current, *(killed.raise_epoch() for _ in range(raises))]
    after = ProducerState(path).current
    assert after.producer_id == used[0].producer_id
    assert after.epoch > max(each.epoch for each in used)


def test_epochs_are_on_disk_before_they_are_used(path):
    state = ProducerState(path)
    for _ in range(150):
        used = state.raise_epoch()
        saved = json.loads(path.read_bytes())
        assert saved["producer_id"] == used.producer_id
        assert saved["next_epoch"] > used.epoch


def test_where_the_epochs_run_out_a_new_id_begins_at_zero(path):
    path.parent.mkdir()
    path.write_text(json.dumps({"producer_id": 5, "next_epoch": EPOCH_MAX}))
    state = ProducerState(path)
    assert state.current == ProducerEpoch(5, EPOCH_MAX)
    after = state.raise_epoch()
    assert after.producer_id != 5
    assert after.epoch == 0
    assert ProducerState(path).current.producer_id == after.producer_id


def test_a_file_whose_last_epoch_is_used_up_begins_a_new_id_at_the_start(path):
    path.parent.mkdir()
    path.write_text(json.dumps({"producer_id": 5, "next_epoch": EPOCH_MAX + 1}))
    assert ProducerState(path).current.producer_id != 5


def test_a_replaced_id_is_kept_over_a_restart(path):
    state = ProducerState(path)
    before = state.current
    after = state.replace_id()
    assert after.producer_id != before.producer_id
    assert state.current == after
    assert ProducerState(path).current.producer_id == after.producer_id


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{",
        b"[]",
        b'{"producer_id":1}',
        b'{"producer_id":-1,"next_epoch":0}',
        b'{"producer_id":9223372036854775808,"next_epoch":0}',
        b'{"producer_id":1,"next_epoch":32769}',
        b'{"producer_id":"1","next_epoch":0}',
    ],
)
def test_a_damaged_file_stops_the_start_and_says_what_to_do(path, text):
    path.parent.mkdir()
    path.write_bytes(text)
    with pytest.raises(StartError, match=r"producer\.json is damaged .* remove it"):
        ProducerState(path)
    assert path.read_bytes() == text


def test_folder_and_file_are_private_and_no_half_written_file_is_left(path):
    ProducerState(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert [each.name for each in path.parent.iterdir()] == ["producer.json"]


def test_on_a_disk_that_takes_nothing_a_new_id_of_this_run_alone_is_used(path):
    saved = ProducerState(path).current
    path.with_suffix(".new").mkdir()
    state = ProducerState(path)
    used = [state.current, *(state.raise_epoch() for _ in range(200))]
    assert len({(each.producer_id, each.epoch) for each in used}) == 201
    assert {each.producer_id for each in used} != {saved.producer_id}
    assert state.current.producer_id != saved.producer_id
    path.with_suffix(".new").rmdir()
    after = ProducerState(path).current
    assert (after.producer_id, after.epoch > saved.epoch) == (saved.producer_id, True)
