"""The reject file keeps what was refused after a 202, over restarts and full disks."""

import resource
from base64 import b64decode
from zlib import crc32

import pytest

from log_format.frame import decode_frame
from sidecar.publish.batch import Ack, Entry, make_batch
from sidecar.publish.message import Message
from sidecar.publish.producer import ProducerEpoch
from sidecar.publish.results import refusal
from sidecar.spool.rejects import RejectFile

DENIED = refusal("denied", {"detail": "no", "decision_id": "d1", "reason": "rule 7"})


def message(number: int) -> Message:
    return Message(
        "t", b'{"n":%d}' % number, 1_000 + number, b"k", b"id-%d" % number, None, b'{"a":"b"}'
    )


def batch(*numbers: int):
    entries = [Entry(message(number), Ack.SIDECAR, None) for number in numbers]
    return make_batch("t", 2, ProducerEpoch(7, 1), 40, entries, 0)


@pytest.fixture
def reopen(tmp_path):
    def open_(bytes_max: int = 1 << 20) -> RejectFile:
        file = RejectFile(tmp_path / "data", bytes_max)
        file.open()
        return file

    return open_


def ids(file: RejectFile) -> list[int]:
    return [each.id for each in file.list()]


def test_a_reject_says_what_and_why_and_gives_its_messages_back(reopen) -> None:
    assert reopen().list() == []
    assert reopen().add(batch(1, 2), DENIED, at_us=5)
    file = reopen()
    (reject,) = file.list()
    assert (file.count, file.messages) == (1, 2)
    assert reject.records() == [message(1), message(2)]
    assert reject.summary() == {
        "id": 0,
        "at_us": 5,
        "topic": "t",
        "partition": 2,
        "messages": 2,
        "code": "denied",
        "detail": "no",
        "decision_id": "d1",
        "reason": "rule 7",
        "doubtful": False,
        "bytes": len(batch(1, 2).frame),
    }


def test_a_message_without_anything_optional_comes_back_as_it_was(reopen) -> None:
    bare = Message("t", b"", 9)
    file = reopen()
    file.add(
        make_batch("t", 0, ProducerEpoch(7, 1), 0, [Entry(bare, Ack.NONE, None)], 0), DENIED, 1
    )
    known_by = b"0000000000000007-1-%08x-0" % crc32(b"t/0")
    assert file.list()[0].records() == [bare._replace(id=known_by)]


def test_the_file_is_for_its_owner_only(reopen, tmp_path) -> None:
    reopen().add(batch(1), DENIED, 1)
    assert (tmp_path / "data" / "rejects.jsonl").stat().st_mode & 0o077 == 0


def test_dropping_forgets_only_what_was_named_and_numbers_go_on(reopen) -> None:
    file = reopen()
    for number in range(3):
        file.add(batch(number), DENIED, number)
    assert file.drop([1, 99]) == 1
    assert file.drop([1]) == 0
    file = reopen()
    assert ids(file) == [0, 2]
    assert (file.count, file.messages) == (2, 2)
    file.add(batch(7), DENIED, 9)
    assert ids(file) == [0, 2, 3]
    assert file.drop([0, 2, 3]) == 3
    assert (file.count, file.messages, file.list()) == (0, 0, [])


def test_a_retry_that_came_half_way_keeps_the_rest_alone(reopen) -> None:
    file = reopen()
    file.add(batch(0), DENIED, 1)
    file.add(batch(1, 2, 3), DENIED, 2)
    file.keep_only(file.list()[1], [message(3)])
    file = reopen()
    assert (file.count, file.messages) == (2, 2)
    rest = file.list()[1]
    assert rest.records() == [message(3)]
    decode_frame(b64decode(rest.frame_base64)).check_hash()


def test_a_full_file_refuses_and_counts_and_takes_again_after_a_drop(reopen) -> None:
    probe = reopen()
    probe.add(batch(1), DENIED, 1)
    size = len(probe.list()[0].frame_base64) + 500
    file = reopen(size)
    assert not file.add(batch(2, 3), DENIED, 2)
    assert file.unkept == 2
    assert ids(file) == [0], "what was there stays"
    file.drop([0])
    assert file.add(batch(4), DENIED, 3)


def test_a_torn_last_line_is_cut_wherever_the_crash_came(reopen, tmp_path) -> None:
    file = reopen()
    file.add(batch(1), DENIED, 1)
    path = tmp_path / "data" / "rejects.jsonl"
    whole = path.read_bytes()
    file.add(batch(2), DENIED, 2)
    both = path.read_bytes()
    for end in range(len(whole) + 1, len(both) - 1, 7):
        path.write_bytes(both[:end])
        file = reopen()
        assert ids(file) == [0]
        assert path.read_bytes() == whole
        file.add(batch(3), DENIED, 3)
        assert ids(reopen()) == [0, 1], "and the next one begins on a line of its own"


def test_a_damaged_line_in_the_middle_costs_no_other(reopen, tmp_path) -> None:
    file = reopen()
    for number in range(3):
        file.add(batch(number), DENIED, number)
    path = tmp_path / "data" / "rejects.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0] + b"\0" * 20 + lines[1][20:] + lines[2])
    assert ids(reopen()) == [0, 2]


def test_a_write_that_the_disk_cuts_short_leaves_no_torn_line_before_the_next(
    reopen, tmp_path
) -> None:
    file = reopen()
    file.add(batch(1), DENIED, 1)
    size = (tmp_path / "data" / "rejects.jsonl").stat().st_size
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 40, before[1]))
    try:
        with pytest.raises(OSError, match="too large"):
            file.add(batch(2), DENIED, 2)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert file.add(batch(3), DENIED, 3)
    assert [each.at_us for each in file.list()] == [1, 3]
    assert [each.at_us for each in reopen().list()] == [1, 3]
