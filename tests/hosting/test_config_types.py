"""The keys of a configuration are the fields of its dataclasses."""

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field
from enum import Enum
from pathlib import Path
from typing import Literal, NewType

import pytest

from hosting.config_types import in_words, is_section, known_keys, section_fields, section_of
from hosting.units import Address, ByteSize, Seconds


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True)
class Inner:
    size: ByteSize
    begin: str = field(default="latest", metadata={"key": "from"})


@dataclass(frozen=True)
class Outer:
    inner: Inner
    other: Inner | None = None
    many: tuple[int, ...] = ()
    made: int = field(default=0, init=False)


@dataclass
class Loose:
    key: str = ""


def test_only_frozen_dataclasses_are_sections() -> None:
    assert is_section(Inner)
    assert not any(map(is_section, (Loose, Address, str, Inner(1), tuple[Inner, ...])))


def test_a_section_is_found_behind_none() -> None:
    assert section_of(Inner | None) is Inner
    assert section_of(Inner) is Inner
    assert section_of(tuple[Inner, ...]) is None


def test_fields_know_their_key_and_default() -> None:
    size, begin = section_fields(Inner)
    assert (size.key, size.default) == ("size", MISSING)
    assert (begin.key, begin.attribute, begin.default) == ("from", "begin", "latest")


def test_every_key_of_a_configuration_can_be_listed() -> None:
    assert list(known_keys(Outer)) == [
        "inner.size",
        "inner.from",
        "other.size",
        "other.from",
        "many",
    ]


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (str, "a text"),
        (int, "a whole number"),
        (bool, "true or false"),
        (Path, "the path of a file or folder"),
        (Seconds, "a duration such as 30, 200ms or 15m"),
        (ByteSize, "a size such as 64kB or 2MiB"),
        (Literal["off", "all"], "one of all, off"),
        (Colour, "one of blue, red"),
        (int | None, "a whole number"),
        (tuple[str, ...], "a list, each a text"),
        (dict[str, int], "a map of names, each to a whole number"),
        (Mapping[str, Inner], "a map of names, each to a map of keys"),
        (NewType("Name", str), "a text"),
    ],
)
def test_a_type_is_put_in_words(kind: object, words: str) -> None:
    assert in_words(kind) == words
