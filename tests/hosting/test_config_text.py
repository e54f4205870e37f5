"""The type of a field decides what its text means."""

from contextlib import suppress
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal, NewType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hosting.config_text import read_text
from hosting.units import Address, ByteSize, Seconds

FOLDER = Path("/etc/sidegate")


class Mode(Enum):
    FAST = "fast"
    SAFE = 2


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (str, "010", "010"),
        (int, "1_000", 1000),
        (int, "-7", -7),
        (float, "1", 1.0),
        (float, "2.5e-3", 0.0025),
        (bool, "Yes", True),
        (bool, "off", False),
        (Literal["off", "required"], "off", "off"),
        (Literal[1, 2], "2", 2),
        (Mode, "fast", Mode.FAST),
        (Mode, "2", Mode.SAFE),
        (Seconds, "15m", 900.0),
        (ByteSize, "2MiB", 2 * 1024 * 1024),
        (Annotated[int, "a note"], "3", 3),
        (NewType("Port", int), "80", 80),
        (Path, "data/core", FOLDER / "data/core"),
        (Path, "/var/x", Path("/var/x")),
        (Path, "~/x", Path.home() / "x"),
        (Address, "127.0.0.1:1", Address("127.0.0.1", 1)),
        (Address, "unix:x.sock", Address(path=FOLDER / "x.sock")),
    ],
)
def test_a_text_is_read_by_its_type(kind: Any, text: str, value: object) -> None:
    assert read_text(kind, text, FOLDER) == value


@pytest.mark.parametrize(
    ("kind", "text", "said"),
    [
        (int, "010", "must be a whole number, not '010'"),
        (int, "1.0", "whole number"),
        (int, "²", "whole number"),
        (int, "9" * 50, "whole number"),
        (float, "nan", "a number"),
        (float, "inf", "a number"),
        (float, "9e999", "a number"),
        (bool, "1", "true or false"),
        (Literal["off", "required"], "of", "must be one of off, required, not 'of'"),
        (Mode, "slow", "one of 2, fast"),
        (Path, "", "the path of a file"),
        (Path, "a\0b", "the path of a file"),
        (Path, "~nobody-of-this-name/x", "can't be told"),
        (Seconds, "soon", "a duration such as"),
        (ByteSize, "2 mb", "a size such as"),
        (Address, "9000", "host:port"),
    ],
)
def test_a_text_of_another_type_is_refused_with_what_was_wanted(
    kind: Any, text: str, said: str
) -> None:
    with pytest.raises(ValueError, match=said):
        read_text(kind, text, FOLDER)


def test_a_long_text_is_quoted_in_part() -> None:
    with pytest.raises(ValueError, match="…") as caught:
        read_text(bool, "x" * 10_000, FOLDER)
    assert len(str(caught.value)) < 200


def test_a_type_that_no_text_can_be_is_the_programmers_mistake() -> None:
    with pytest.raises(TypeError, match="can't hold"):
        read_text(list[int], "1", FOLDER)


@given(st.sampled_from([int, float, bool, Path, Address, Seconds, ByteSize, Mode]), st.text())
def test_no_text_fails_in_another_way_than_it_says(kind: Any, text: str) -> None:
    with suppress(ValueError):
        read_text(kind, text, FOLDER)


@given(st.integers(min_value=-(10**20), max_value=10**20))
def test_every_integer_reads_as_itself(number: int) -> None:
    assert read_text(int, str(number), FOLDER) == number
