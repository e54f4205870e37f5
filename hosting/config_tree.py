"""A configuration before it has types: maps, lists and texts, each knowing where it was written.

Reads YAML (of which JSON is a part) into a tree. May import PyYAML's composer only: nodes carry
line numbers and nothing is ever constructed from a tag. Must never know which keys exist.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import yaml

FILE_BYTES_MAX: Final = 1024 * 1024
"""A configuration is written by people; a larger file is some other file."""
NODES_MAX: Final = 20_000
"""Aliases may repeat a node, and repeat the repetition: this bounds what they can unfold to."""
_NULL: Final = "tag:yaml.org,2002:null"
_MERGE: Final = "tag:yaml.org,2002:merge"
_TEXT_TAGS: Final = frozenset(
    f"tag:yaml.org,2002:{kind}" for kind in ("str", "int", "float", "bool", "timestamp", "value")
)


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """Where something was written: a line of a file, or an environment variable."""

    source: str
    line: int = 0

    def __str__(self) -> str:
        return f"{self.source}:{self.line}" if self.line else self.source


@dataclass(frozen=True, slots=True)
class ConfigProblem:
    """One thing that is wrong, and where. `key` is dotted, and empty for the whole file."""

    place: Place
    key: str
    text: str

    def __str__(self) -> str:
        return ": ".join(part for part in (str(self.place), self.key, self.text) if part)


@dataclass(frozen=True, slots=True)
class Text:
    """A scalar as written. What it means is decided by the type of the field that it is for."""

    place: Place
    text: str
    is_null: bool = False
    from_environment: bool = False


@dataclass(frozen=True, slots=True)
class Items:
    """A list."""

    place: Place
    items: tuple["Tree", ...]


@dataclass(frozen=True, slots=True)
class Section:
    """A map. The place of a key is the place of its own line, not of its value's."""

    place: Place
    entries: dict[str, "Tree"] = field(default_factory=dict)
    key_places: dict[str, Place] = field(default_factory=dict)


Tree = Text | Items | Section


def read_tree(path: Path) -> tuple[Section | None, list[ConfigProblem]]:
    """The file's tree, and what is wrong with the file as YAML.

    None where nothing can be told of its keys. An empty file is an empty map.
    """
    whole = Place(str(path))
    try:
        with path.open("rb") as file:
            raw = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        return None, [ConfigProblem(whole, "", f"can't be read: {reason}; check --config")]
    if len(raw) > FILE_BYTES_MAX:
        text = f"is larger than {FILE_BYTES_MAX} bytes and can't be a configuration"
        return None, [ConfigProblem(whole, "", text)]
    if path.suffix == ".json":
        # JSON allows tabs between its tokens and forbids them inside; YAML trips over them.
        raw = raw.replace(b"\t", b" ")
    return parse_tree(raw, str(path))


def parse_tree(raw: bytes, source: str) -> tuple[Section | None, list[ConfigProblem]]:
    """The tree of one YAML document. `source` is what problems call the file."""
    whole = Place(source)
    try:
        node = yaml.compose(raw.decode("utf-8-sig"), Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = Place(source, mark.line + 1) if mark else whole
        said = ", ".join(part for part in (error.context, error.problem) if part)
        return None, [ConfigProblem(place, "", f"is not YAML: {said}")]
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        said = str(error).splitlines()[0]
        return None, [ConfigProblem(whole, "", f"is not YAML in UTF-8: {said}")]
    if node is None:
        return Section(whole), []
    reader = _Reader(source)
    try:
        tree = reader.tree(node, "", whole)
    except _TooManyNodes:
        text = f"unfolds to more than {NODES_MAX} values; use fewer aliases"
        return None, [ConfigProblem(whole, "", text)]
    if isinstance(tree, Section):
        return tree, reader.problems
    if isinstance(tree, Text) and tree.is_null:
        return Section(whole), reader.problems
    if not reader.problems:
        reader.report(tree.place, "", "must be a map of keys, such as `listen: 127.0.0.1:9000`")
    return None, reader.problems


class _TooManyNodes(Exception):
    """Raised out of the walk; the caller reports one problem."""


class _Reader:
    def __init__(self, source: str) -> None:
        self._source = source
        self._count = 0
        self._open: set[int] = set()
        self.problems: list[ConfigProblem] = []

    def report(self, place: Place, key: str, text: str) -> None:
        self.problems.append(ConfigProblem(place, key, text))

    def _place(self, node: yaml.Node) -> Place:
        return Place(self._source, node.start_mark.line + 1)

    def tree(self, node: yaml.Node, key: str, begins: Place) -> Tree:
        """`begins` is where a section is said to be: at its own key, not at its first entry."""
        self._count += 1
        if self._count > NODES_MAX:
            raise _TooManyNodes
        place = self._place(node)
        nothing = Text(place, "", is_null=True)
        if id(node) in self._open:
            self.report(place, key, "refers to itself through an alias")
            return nothing
        self._open.add(id(node))
        try:
            if isinstance(node, yaml.MappingNode):
                return self._section(node, key, begins)
            if isinstance(node, yaml.SequenceNode):
                return Items(place, tuple(self._items(node, key)))
            if node.tag == _NULL:
                return nothing
            if node.tag not in _TEXT_TAGS:
                self.report(place, key, f"has the tag {node.tag}, and tags are not read")
                return nothing
            return Text(place, node.value)
        finally:
            self._open.discard(id(node))

    def _items(self, node: yaml.SequenceNode, key: str) -> Iterator[Tree]:
        for at, item in enumerate(node.value):
            yield self.tree(item, f"{key}[{at}]", self._place(item))

    def _section(self, node: yaml.MappingNode, key: str, begins: Place) -> Section:
        section = Section(begins)
        for key_node, value_node in node.value:
            place = self._place(key_node)
            if key_node.tag == _MERGE:
                self.report(place, key, "uses a merge key <<; write the keys out instead")
                continue
            if not isinstance(key_node, yaml.ScalarNode) or key_node.tag not in _TEXT_TAGS:
                self.report(place, key, "has a key that is not a plain word")
                continue
            name = key_node.value
            path = f"{key}.{name}" if key else name
            if name in section.entries:
                first = section.key_places[name]
                self.report(place, path, f"is set twice, first on line {first.line}; keep one")
                continue
            section.entries[name] = self.tree(value_node, path, place)
            section.key_places[name] = place
        return section
