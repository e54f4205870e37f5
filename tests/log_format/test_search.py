"""Behind damage, the next frame is found at its place and nothing else is taken for one."""

import pytest

from log_format.envelope import MAGIC
from log_format.search import SEARCH_BYTES, envelope_at, next_frame


@pytest.mark.parametrize("rubbish", [0, 8, 64, SEARCH_BYTES - 8, SEARCH_BYTES, SEARCH_BYTES + 8])
def test_the_next_frame_is_found_behind_any_length_of_damage(
    stored_frame: bytes, rubbish: int
) -> None:
    data = memoryview(b"\xff" * rubbish + stored_frame)
    assert next_frame(data, 0, len(data)) == rubbish
    assert envelope_at(data, rubbish) is not None
    assert next_frame(data, rubbish + 1, len(data)) == len(data)


def test_a_magic_alone_or_out_of_line_is_no_frame(stored_frame: bytes) -> None:
    data = memoryview(MAGIC + bytes(12) + b"\xff" * 4 + stored_frame)
    assert next_frame(data, 0, len(data)) == len(data)
    assert envelope_at(data, 0) is None


def test_nothing_is_looked_for_past_the_end(stored_frame: bytes) -> None:
    data = memoryview(bytes(16) + stored_frame)
    assert next_frame(data, 0, 16) == 16
