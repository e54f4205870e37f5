"""Batches as they are read from the spool's files."""

import pytest

from sidecar.publish.batch import Ack, Entry, make_batch
from sidecar.publish.message import Message
from sidecar.publish.producer import ProducerEpoch
from sidecar.spool.quarantine import Quarantine
from sidecar.spool.spool_files import SpoolFiles
from sidecar.spool.spool_reader import SpoolReader


def frame(number, topic="t"):
    message = Message(topic, b"%d" % number, 0, id=b"id-%d" % number)
    entries = [Entry(message, Ack.SIDECAR, None)]
    return make_batch(topic, 0, ProducerEpoch(7, 1), number, entries, number).frame


@pytest.fixture
def written(tmp_path):
    """Frames in a spool that was closed, and how to open it again."""

    def write(*frames):
        files = SpoolFiles(tmp_path, segment_bytes=1 << 20)
        files.open(lambda _: None)
        positions = files.append(list(enumerate(frames)), 5)
        files.close()
        return positions

    def reopen():
        files = SpoolFiles(tmp_path, segment_bytes=1 << 20)
        reader, backlogs = SpoolReader(files, Quarantine(tmp_path / "quarantine")), {}
        reader.open(backlogs)
        return files, reader, backlogs

    return write, reopen


def test_what_is_there_is_sorted_by_topic_with_its_ids(written):
    write, reopen = written
    write(frame(0), frame(1, "u"), frame(2))
    files, reader, backlogs = reopen()
    assert {place: backlog.ids for place, backlog in backlogs.items()} == {
        ("t", 0): [b"id-0", b"id-2"],
        ("u", 0): [b"id-1"],
    }
    assert reader.quarantined == 0
    files.close()


def test_a_batch_is_read_with_its_place_and_a_lost_one_is_none(written):
    write, reopen = written
    first, second = write(frame(0), frame(1))
    files, reader, _ = reopen()
    batch, lost = reader.batches([second, first + 8])
    assert (batch.frame, batch.position, batch.order) == (frame(1), second, 1)
    assert lost is None
    files.close()


def test_what_is_no_frame_is_set_aside_once_and_marked(written):
    write, reopen = written
    write(frame(0), frame(1)[:-40], b"no frame at all")
    for _ in range(2):
        files, reader, backlogs = reopen()
        assert backlogs["t", 0].ids == [b"id-0"]
        assert reader.quarantined == 2
        assert files.live == 1
        files.close()


def test_where_it_cannot_be_set_aside_it_stays_and_stops_nothing(written, tmp_path):
    write, reopen = written
    write(frame(0), b"no frame at all")
    (tmp_path / "quarantine").write_text("a file in the way")
    files, reader, backlogs = reopen()
    assert len(backlogs) == 1
    assert (reader.quarantined, files.live) == (0, 2)
    files.close()
