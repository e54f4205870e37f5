"""One value from its text, by the type of the field that it is for.

The type decides what a text means: `off` is a word for a `Literal` and false for a `bool`, and
`010` is never eight, so that YAML's own guesses surprise nobody. Standard library and the units.
"""

import re
from collections.abc import Callable, Mapping
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Final, Literal, get_args, get_origin

from hosting.config_types import in_words, listed, plain
from hosting.units import Address, Unit, parse_bytes, parse_duration

_INTEGER: Final = re.compile(r"[+-]?(0|[1-9][0-9_]*)", re.ASCII)
_FLOAT: Final = re.compile(r"[+-]?[0-9][0-9_]*(\.[0-9]+)?([eE][+-]?[0-9]{1,3})?", re.ASCII)
_DIGITS_MAX: Final = 30
"""No setting has more; `int` takes quadratic time over very many."""
_BOOLEANS: Final = {
    "true": True,
    "yes": True,
    "on": True,
    "false": False,
    "no": False,
    "off": False,
}
_SHOWN_CHARACTERS_MAX: Final = 80
"""A problem quotes what was written, but never a whole pasted certificate."""


class Unreadable(ValueError):
    """A text that is not what the field's type wants. The message continues `<key>: `."""


def read_text(kind: Any, text: str, folder: Path) -> Any:
    """`text` as a `kind`, or Unreadable. Relative paths begin at `folder`.

    TypeError, a programmer's mistake, for a type that no text can be.
    """
    kind = plain(kind)
    if get_origin(kind) is Annotated:
        base, *marks = get_args(kind)
        units = [mark for mark in marks if isinstance(mark, Unit)]
        return _UNITS[units[0]](text) if units else read_text(base, text, folder)
    if get_origin(kind) is Literal:
        return _choice({str(value): value for value in get_args(kind)}, text)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return _choice({str(member.value): member for member in kind}, text)
    if kind is Path:
        return folder / _path(text)
    if kind is Address:
        return Address.parse(text).relative_to(folder)
    if kind not in _READERS:
        raise TypeError(f"a configuration can't hold a {kind!r}")
    return _READERS[kind](text)


def _choice(choices: Mapping[str, Any], text: str) -> Any:
    if text not in choices:
        raise Unreadable(f"must be one of {listed(choices)}, not {_shown(text)}")
    return choices[text]


def _boolean(text: str) -> bool:
    if text.lower() not in _BOOLEANS:
        raise _unreadable(bool, text)
    return _BOOLEANS[text.lower()]


def _integer(text: str) -> int:
    if len(text) > _DIGITS_MAX or not _INTEGER.fullmatch(text):
        raise _unreadable(int, text)
    return int(text)


def _float(text: str) -> float:
    if len(text) > _DIGITS_MAX or not _FLOAT.fullmatch(text):
        raise _unreadable(float, text)
    number = float(text)
    if number in (float("inf"), float("-inf")):
        raise _unreadable(float, text)
    return number


def _path(text: str) -> Path:
    if not text or "\0" in text:
        raise _unreadable(Path, text)
    try:
        return Path(text).expanduser()
    except RuntimeError as error:
        raise Unreadable(f"begins with ~, and whose home that is can't be told: {text}") from error


def _unreadable(kind: type, text: str) -> Unreadable:
    return Unreadable(f"must be {in_words(kind)}, not {_shown(text)}")


def _shown(text: str) -> str:
    cut = text if len(text) <= _SHOWN_CHARACTERS_MAX else text[:_SHOWN_CHARACTERS_MAX] + "…"
    return repr(cut)


_UNITS: Final[Mapping[Unit, Callable[[str], float | int]]] = {
    Unit.DURATION: parse_duration,
    Unit.BYTES: parse_bytes,
}
_READERS: Final[Mapping[Any, Callable[[str], Any]]] = {
    str: str,
    bool: _boolean,
    int: _integer,
    float: _float,
}
