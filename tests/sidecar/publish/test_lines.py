"""Lines: cut as they stand, in blocks, however the bytes arrive."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.publish.lines import LineCutter, LineTooLong


def cut(data, step, block_bytes=64, line_bytes_max=1 << 20):
    cutter, values, firsts = LineCutter(block_bytes, line_bytes_max), [], []
    blocks = [cutter.feed(data[at : at + step]) for at in range(0, len(data), step)]
    for block in [*blocks, cutter.finish()]:
        if block is not None:
            firsts.append(block.first)
            assert block.first == len(values)
            lines = block.text.split(b"\n")
            assert block.records == len(lines)
            values += lines
    assert cutter.count == len(values)
    return values


@given(st.lists(st.binary(max_size=40).filter(lambda b: b"\n" not in b)), st.integers(1, 100))
def test_lines_come_out_verbatim_and_a_last_newline_makes_no_empty_one(lines, step):
    ended = b"".join(line + b"\n" for line in lines)
    assert cut(ended, step) == lines
    unended = b"\n".join(lines)
    assert cut(unended, step) == (lines[:-1] if lines and not lines[-1] else lines)


def test_nothing_makes_no_line_and_a_lone_newline_an_empty_one():
    assert cut(b"", 1) == []
    assert cut(b"\n", 1) == [b""]
    assert cut(b"\n\n", 1) == [b"", b""]
    assert cut(b"a\r\nb", 2) == [b"a\r", b"b"]


@pytest.mark.parametrize("step", [1, 7, 1000])
def test_a_line_over_the_limit_is_named_by_its_number(step):
    with pytest.raises(LineTooLong) as caught:
        cut(b"a\nb\n" + b"x" * 300 + b"\nc\n", step, block_bytes=16, line_bytes_max=100)
    assert caught.value.line == 2


def test_a_line_that_never_ends_is_refused_before_it_fills_the_memory():
    with pytest.raises(LineTooLong):
        cut(b"x" * 6400, 64, line_bytes_max=1000)
