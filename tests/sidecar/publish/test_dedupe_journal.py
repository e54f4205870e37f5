"""The journal of ids: what was written is there after a kill, and a torn record hurts no other."""

import resource

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.publish.dedupe_journal import (
    RECORD_BYTES,
    DedupeJournal,
    Line,
    Mark,
    decode_lines,
    encode_line,
)

LINES = st.builds(
    Line,
    st.sampled_from(Mark),
    st.binary(min_size=16, max_size=16),
    st.integers(0, 2**62),
    st.integers(0, 2**31 - 1),
    st.integers(0, 2**62),
    st.sampled_from(["committed", "interval", "os", "memory"]),
)


def line(number):
    return Line(Mark.DONE, b"%016d" % number, number)


@given(st.lists(LINES, max_size=10))
def test_lines_come_back(lines):
    assert list(decode_lines(b"".join(map(encode_line, lines)))) == lines


@given(st.lists(LINES, min_size=1, max_size=5), st.data())
def test_a_flipped_bit_loses_one_line_and_a_cut_only_the_last(lines, data):
    whole = bytearray(b"".join(map(encode_line, lines)))
    at = data.draw(st.integers(0, len(whole) - 1))
    assert list(decode_lines(bytes(whole[:at]))) == lines[: at // RECORD_BYTES]
    whole[at] ^= 1 << data.draw(st.integers(0, 7))
    found = list(decode_lines(bytes(whole)))
    hit = at // RECORD_BYTES
    # The four bytes behind the checksum are padding: a flip there is no damage.
    assert found in (lines, lines[:hit] + lines[hit + 1 :])


def test_the_newest_lines_are_there_after_any_number_of_turns(tmp_path):
    journal = DedupeJournal(tmp_path, 10)
    assert journal.open() == []
    for number in range(57):
        journal.write([line(number)])
    journal.close()
    found = DedupeJournal(tmp_path, 10).open()
    assert [each.at_us for each in found] == list(range(57 - len(found), 57))
    assert 10 <= len(found) <= 20


def test_a_torn_record_is_cut_and_the_next_one_is_read(tmp_path):
    journal = DedupeJournal(tmp_path, 10)
    journal.open()
    journal.write([line(0), line(1)])
    journal.close()
    path = tmp_path / "ids.0"
    path.write_bytes(path.read_bytes()[:-5])
    again = DedupeJournal(tmp_path, 10)
    assert again.open() == [line(0)]
    again.write([line(2)])
    again.close()
    assert DedupeJournal(tmp_path, 10).open() == [line(0), line(2)]


def test_the_newer_file_is_found_whatever_the_clock_did(tmp_path):
    journal = DedupeJournal(tmp_path, 4)
    journal.open()
    for number in range(7):
        # The clock goes backwards all the time.
        journal.write([Line(Mark.BEGUN, b"%016d" % number, 1_000 - number)])
    journal.close()
    again = DedupeJournal(tmp_path, 4)
    found = [int(line.key) for line in again.open()]
    assert found == sorted(found)
    assert found[-1] == 6
    assert len(found) >= 4
    again.close()


def test_a_line_that_the_disk_cuts_short_puts_no_other_out_of_step(tmp_path):
    journal = DedupeJournal(tmp_path, 100)
    journal.open()
    journal.write([Line(Mark.BEGUN, b"%016d" % 0, 1)])
    size = (tmp_path / "ids.0").stat().st_size
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 20, before[1]))
    try:
        with pytest.raises(OSError, match="too large"):
            journal.write([Line(Mark.BEGUN, b"%016d" % 1, 1)])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    journal.write([Line(Mark.BEGUN, b"%016d" % 2, 1)])
    journal.close()
    assert [int(line.key) for line in DedupeJournal(tmp_path, 100).open()] == [0, 2]
