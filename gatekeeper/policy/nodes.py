"""YAML text as a tree that remembers its lines and nothing else of YAML.

Built from the parser's events, without recursion and without YAML's guesses about types: `no` is
the text `no` and `007` the text `007`. Aliases, anchors, tags, merge keys, duplicate keys and deep
nesting are refused, so what one reads in the file is what it says. May import PyYAML and
`problem`; must never know what a policy is.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import yaml

from gatekeeper.policy.problem import Problems, shown

DEPTH_MAX: Final = 8
"""Nesting of tables and lists. The dialect needs five levels; more can only be a mistake."""

# The parser written in C is about ten times as fast; PyYAML's wheels have it, some builds lack it.
LOADER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True, slots=True)
class Text:
    """A scalar as written. `plain` is false for a quoted or block one."""

    value: str
    line: int
    plain: bool = True


@dataclass(frozen=True, slots=True)
class Items:
    """A list."""

    items: tuple["Node", ...]
    line: int


@dataclass(frozen=True, slots=True)
class Table:
    """A mapping with text keys, each of them once, in file order."""

    entries: tuple[tuple[Text, "Node"], ...]
    line: int


@dataclass(frozen=True, slots=True)
class Refused:
    """Something that the dialect does not have. Its problem is already noted."""

    line: int


Node = Text | Items | Table | Refused


@dataclass(slots=True)
class _Open:
    """A list or table whose end has not come yet. In a table, children are keys and values."""

    is_table: bool
    line: int
    children: list[Node] = field(default_factory=list)


def read_nodes(text: str, problems: Problems, *, loader: Any = LOADER) -> Node | None:
    """The file's one document as nodes, or None where it has none that can be read."""
    if unprintable := yaml.reader.Reader.NON_PRINTABLE.search(text):
        line = text.count("\n", 0, unprintable.start()) + 1
        problems.add(line, "", f"holds the character {unprintable[0]!a}; remove it")
        return None
    root: Node | None = None
    try:
        for document in _documents(text, problems, loader):
            if root is not None:
                problems.add(
                    document.line, "", "a second YAML document begins here; keep one in a file"
                )
                break
            root = document
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = 1 if mark is None else mark.line + 1
        problems.add(line, "", f"is not YAML: {error.problem or error.context}{_SYNTAX_HINT}")
        return None
    if root is None and not problems.found:
        problems.add(1, "", "the file is empty; begin it with version: 1")
    return root


_SYNTAX_HINT: Final = " (put quotes around a pattern that begins with *, > or {)"


def _documents(text: str, problems: Problems, loader: Any) -> Iterator[Node]:
    stack: list[_Open] = []
    for event in yaml.parse(text, Loader=loader):
        node: Node
        if isinstance(event, yaml.ScalarEvent):
            node = _scalar(event, problems)
        elif isinstance(event, yaml.AliasEvent):
            line = _line(event)
            problems.add(line, "", f"*{event.anchor} is a YAML alias; use a group instead")
            node = Refused(line)
        elif isinstance(event, yaml.SequenceStartEvent | yaml.MappingStartEvent):
            line = _line(event)
            _refuse_decoration(event, line, problems)
            if len(stack) == DEPTH_MAX:
                problems.add(line, "", f"is nested more than {DEPTH_MAX} levels deep")
                return
            stack.append(_Open(isinstance(event, yaml.MappingStartEvent), line))
            continue
        elif isinstance(event, yaml.SequenceEndEvent | yaml.MappingEndEvent):
            node = _closed(stack.pop(), problems)
        else:
            continue
        if stack:
            stack[-1].children.append(node)
        else:
            yield node


def _line(event: Any) -> int:
    return int(event.start_mark.line) + 1


def _scalar(event: Any, problems: Problems) -> Node:
    line = _line(event)
    if not _refuse_decoration(event, line, problems):
        return Refused(line)
    return Text(event.value, line, plain=event.style in (None, ""))


def _refuse_decoration(event: Any, line: int, problems: Problems) -> bool:
    if event.anchor is not None:
        problems.add(line, "", f"&{event.anchor} is a YAML anchor; use a group instead")
        return False
    if event.tag not in (None, "!"):
        problems.add(line, "", f"{shown(event.tag)} is a YAML tag, which the dialect does not have")
        return False
    return True


def _closed(opened: _Open, problems: Problems) -> Node:
    if not opened.is_table:
        return Items(tuple(opened.children), opened.line)
    entries: dict[str, tuple[Text, Node]] = {}
    pairs = iter(opened.children)
    for key, value in zip(pairs, pairs, strict=True):
        if not isinstance(key, Text):
            if not isinstance(key, Refused):
                problems.add(
                    key.line, "", "a key must be text; put quotes around a pattern with { }"
                )
        elif key.value == "<<" and key.plain:
            problems.add(key.line, "", "<< is a YAML merge key, which the dialect does not have")
        elif key.value in entries:
            first = entries[key.value][0].line
            problems.add(key.line, "", f"{shown(key.value)} is already given on line {first}")
        else:
            entries[key.value] = (key, value)
    return Table(tuple(entries.values()), opened.line)
