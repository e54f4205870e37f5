"""What a configuration may be made of: frozen dataclasses, and the types of their fields.

Standard library and the units only. Must never hold a value; it only reads types.
"""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin, get_type_hints

from hosting.units import Address, Unit


@dataclasses.dataclass(frozen=True, slots=True)
class Field:
    """One key of a section: its name in the file, its type, and what it is when left out.

    `default` is `dataclasses.MISSING` where the key is required.
    """

    key: str
    attribute: str
    type: Any
    default: Any


def is_section(kind: object) -> bool:
    """True for a frozen dataclass, the only kind of type that may hold further keys."""
    if not isinstance(kind, type) or not dataclasses.is_dataclass(kind) or kind is Address:
        return False
    parameters: Any = getattr(kind, "__dataclass_params__", None)
    return bool(parameters.frozen)


def section_fields(cls: type[Any]) -> list[Field]:
    """The keys of a section. A field may take another key with `metadata={"key": "from"}`."""
    hints = get_type_hints(cls, include_extras=True)
    found = []
    for one in dataclasses.fields(cls):
        if not one.init:
            continue
        default: Any = one.default
        if one.default_factory is not dataclasses.MISSING:
            default = one.default_factory()
        found.append(Field(one.metadata.get("key", one.name), one.name, hints[one.name], default))
    return found


def section_of(kind: Any) -> type[Any] | None:
    """The section that a field's type names, directly or as `Section | None`."""
    for part in (kind, *union_parts(kind)):
        if is_section(part):
            return part  # type: ignore[no-any-return]
    return None


def known_keys(cls: type[Any], prefix: str = "") -> Iterator[str]:
    """Every dotted key of a configuration, so that documentation can be compared with it."""
    for one in section_fields(cls):
        inner = section_of(one.type)
        if inner is None:
            yield f"{prefix}{one.key}"
        else:
            yield from known_keys(inner, f"{prefix}{one.key}.")


def union_parts(kind: Any) -> tuple[Any, ...]:
    """The members of `A | B`; nothing for any other type."""
    return get_args(kind) if get_origin(kind) in (Union, UnionType) else ()


def plain(kind: Any) -> Any:
    """The type below a `NewType`, which only the type checker tells apart."""
    while hasattr(kind, "__supertype__"):
        kind = kind.__supertype__
    return kind


def listed(names: Iterable[object]) -> str:
    """Names for a message, in one order whatever they came in."""
    return ", ".join(sorted(str(name) for name in names))


_WORDS: Final[dict[Any, str]] = {
    str: "a text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    Path: "the path of a file or folder",
    Address: "an address such as 127.0.0.1:9000 or unix:core.sock",
    Unit.DURATION: "a duration such as 30, 200ms or 15m",
    Unit.BYTES: "a size such as 64kB or 2MiB",
}


def in_words(kind: Any) -> str:
    """A type as a message puts it, after "must be"."""
    kind = plain(kind)
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        units = [mark for mark in arguments[1:] if isinstance(mark, Unit)]
        return _WORDS[units[0]] if units else in_words(arguments[0])
    if origin in (Union, UnionType):
        return " or ".join(in_words(part) for part in arguments if part is not NoneType)
    if origin is Literal:
        return f"one of {listed(arguments)}"
    if origin in (tuple, frozenset):
        return f"a list, each {in_words(arguments[0])}"
    if origin in (dict, Mapping):
        return f"a map of names, each to {in_words(arguments[1])}"
    if isinstance(kind, type) and issubclass(kind, Enum):
        return f"one of {listed(member.value for member in kind)}"
    return "a map of keys" if is_section(kind) else _WORDS.get(kind, str(kind))
