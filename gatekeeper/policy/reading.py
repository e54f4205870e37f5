"""Nodes as plain values: the few shapes that the dialect is made of.

Each function returns the value, or None after it has noted the problem with its line. May import
`nodes` and `problem`; must never know what a key means.
"""

import re
from collections.abc import Callable, Mapping
from typing import Final, TypeVar

from gatekeeper.policy.nodes import Items, Node, Refused, Table, Text
from gatekeeper.policy.problem import Problems, shown

T = TypeVar("T")

NAME_CHARS_MAX: Final = 128
"""Principals, groups, issuers: with room to spare inside the 512 bytes that a batch gives one."""
NAME: Final = re.compile(rf"[A-Za-z0-9][A-Za-z0-9._-]{{0,{NAME_CHARS_MAX - 1}}}")
"""No colon and no slash, so that a name can't be taken for a SPIFFE id, a claim or a scope."""
SHORT_CHARS_MAX: Final = 256
"""Audiences, client ids, claim values, reasons: longer than any that is meant."""
_NULLS: Final = ("", "~", "null", "Null", "NULL")


def fields(
    node: Node, where: str, keys: Mapping[str, bool], problems: Problems
) -> dict[str, Node] | None:
    """A table with known keys only. `keys` maps each to whether it must be there."""
    if not isinstance(node, Table):
        wrong_shape(node, where, "a table of " + ", ".join(keys), problems)
        return None
    found = {}
    for key, value in node.entries:
        if key.value in keys:
            found[key.value] = value
        else:
            hint = problems.hint(key.value, keys) or f"; the keys here are {', '.join(keys)}"
            problems.add(key.line, where, f"unknown key {shown(key.value)}{hint}")
    for required in (key for key, must in keys.items() if must and key not in found):
        problems.add(node.line, where, f"{required} is missing")
    return found


def entries(node: Node, where: str, of: str, problems: Problems) -> tuple[tuple[Text, Node], ...]:
    """A table whose keys are the author's own. `of` says what it maps to what."""
    if isinstance(node, Table):
        return node.entries
    wrong_shape(node, where, f"a table of {of}", problems)
    return ()


def items(node: Node, where: str, of: str, problems: Problems) -> tuple[Node, ...]:
    """A list."""
    if isinstance(node, Items):
        return node.items
    wrong_shape(node, where, f"a list of {of}, in [ ]", problems)
    return ()


def text(node: Node, where: str, problems: Problems) -> Text | None:
    """A scalar that is not empty, as written."""
    if not isinstance(node, Text):
        wrong_shape(node, where, "one value", problems)
        return None
    if (node.plain and node.value in _NULLS) or not node.value:
        problems.add(node.line, where, "is empty; give a value or remove the key")
        return None
    return node


def texts(
    node: Node, where: str, of: str, problems: Problems, *, empty_is: str | None = None
) -> tuple[Text, ...]:
    """A list of scalars; the same one twice is noted, and an empty list where `empty_is` says why
    that is wrong."""
    found: dict[str, Text] = {}
    listed = items(node, where, of, problems)
    if empty_is is not None and isinstance(node, Items) and not listed:
        problems.add(node.line, where, f"is empty: {empty_is}")
    for item in listed:
        value = text(item, where, problems)
        if value is None:
            continue
        if value.value in found:
            problems.add(value.line, where, f"{shown(value.value)} is listed twice")
        found[value.value] = value
    return tuple(found.values())


def parsed(node: Node, where: str, parse: Callable[[str], T], problems: Problems) -> T | None:
    """A scalar through `parse`, whose ValueError says what is wrong."""
    value = text(node, where, problems)
    if value is None:
        return None
    try:
        return parse(value.value)
    except ValueError as error:
        problems.add(value.line, where, str(error))
        return None


def name(value: Text, where: str, problems: Problems) -> str | None:
    """The name of a principal, group or issuer."""
    if NAME.fullmatch(value.value):
        return value.value
    problems.add(
        value.line,
        where,
        f"{shown(value.value)} is not a name: letters, digits, '.', '_' and '-', at most "
        f"{NAME_CHARS_MAX}, and the first a letter or digit",
    )
    return None


def short(value: str) -> str:
    """A parser for `parsed` that takes one line of a sane length."""
    if len(value) > SHORT_CHARS_MAX:
        raise ValueError(f"has {len(value)} characters; at most {SHORT_CHARS_MAX}")
    if not value.isprintable():
        raise ValueError("must be one line of printable text")
    return value


def one_of(*choices: str) -> Callable[[str], str]:
    """A parser for `parsed` that takes one of these words."""

    def parse(value: str) -> str:
        if value in choices:
            return value
        raise ValueError(f"must be {' or '.join(choices)}, not {shown(value)}")

    return parse


def wrong_shape(node: Node, where: str, wanted: str, problems: Problems) -> None:
    """Note that a node is not what is wanted. A refused node has been noted already."""
    if isinstance(node, Refused):
        return
    kinds = {Text: "one value", Items: "a list", Table: "a table"}
    problems.add(node.line, where, f"must be {wanted}, not {kinds[type(node)]}")
