"""From a tree of texts to frozen dataclasses, collecting every problem on the way.

May import the tree and the types. Must never read a file or the environment.
"""

import dataclasses
import difflib
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from types import MappingProxyType, NoneType
from typing import Any, Final, get_args, get_origin

from hosting.config_text import read_text
from hosting.config_tree import ConfigProblem, Items, Place, Section, Text, Tree
from hosting.config_types import Field, in_words, is_section, listed, section_fields, union_parts


class _Outcome(Enum):
    FAILED = "failed"


FAILED: Final = _Outcome.FAILED
"""In place of a value that could not be read; its problem has been reported."""


class Builder:
    """Builds sections and adds what is wrong with them to `problems`. One per load."""

    def __init__(self, folder: Path, problems: list[ConfigProblem]) -> None:
        self._folder = folder
        self._problems = problems

    def section(self, cls: type[Any], tree: Tree, key: str, base: Any = None) -> Any:
        """An instance of `cls`, or FAILED. Keys that are left out come from `base`, if given."""
        if isinstance(tree, Text) and tree.is_null:
            tree = Section(tree.place)
        if not isinstance(tree, Section):
            return self._fail(tree.place, key, "must be a map of keys")
        fields = section_fields(cls)
        self._refuse_unknown(tree, {one.key for one in fields}, key)
        values = {
            one.attribute: self._field(one, tree, _join(key, one.key), base) for one in fields
        }
        if FAILED in values.values():
            return FAILED
        try:
            instance = cls(**values)
        except ValueError as error:
            return self._fail(tree.place, key, str(error))
        return instance if self._checks_out(instance, tree, key) else FAILED

    def value(self, kind: Any, tree: Tree, key: str, base: Any = None) -> Any:
        """`tree` as a value of the type `kind`, or FAILED."""
        origin = get_origin(kind)
        if parts := union_parts(kind):
            return self._union(parts, tree, key, base)
        if is_section(kind):
            return self.section(kind, tree, key, base)
        if origin in (tuple, frozenset):
            return self._items(kind, tree, key)
        if origin in (dict, Mapping):
            return self._map(kind, tree, key)
        if not isinstance(tree, Text):
            return self._fail(tree.place, key, f"must be {in_words(kind)}, not a list or a map")
        if tree.is_null:
            return self._fail(tree.place, key, f"is empty and must be {in_words(kind)}")
        try:
            return read_text(kind, tree.text, self._folder)
        except ValueError as error:
            return self._fail(tree.place, key, str(error))

    def _field(self, one: Field, tree: Section, key: str, base: Any) -> Any:
        default = one.default if base is None else getattr(base, one.attribute)
        if one.key in tree.entries:
            inner = default if is_section(type(default)) else None
            return self.value(one.type, tree.entries[one.key], key, inner)
        if default is not dataclasses.MISSING:
            return default
        if is_section(one.type):
            # Going in names the keys that are really missing, not just the section.
            return self.section(one.type, Section(tree.place), key)
        return self._fail(tree.place, key, f"is missing and must be {in_words(one.type)}")

    def _refuse_unknown(self, tree: Section, known: set[str], key: str) -> None:
        for name, place in tree.key_places.items():
            if name not in known:
                close = difflib.get_close_matches(name.lower(), sorted(known), n=1)
                hint = f"did you mean {close[0]}?" if close else f"the keys are {listed(known)}"
                self._fail(place, _join(key, name), f"is not a known key; {hint}")

    def _checks_out(self, instance: Any, tree: Section, key: str) -> bool:
        hook = getattr(instance, "problems", None)
        found = [] if hook is None else list(hook())
        for inner, text in found:
            self._fail(_place_of(tree, inner), _join(key, inner), text)
        return not found

    def _union(self, parts: tuple[Any, ...], tree: Tree, key: str, base: Any) -> Any:
        if NoneType in parts and _says_nothing(tree):
            return None
        others = [part for part in parts if part is not NoneType]
        if len(others) == 1:
            return self.value(others[0], tree, key, base)
        for part in others:
            found: list[ConfigProblem] = []
            value = Builder(self._folder, found).value(part, tree, key, base)
            if not found:
                return value
        return self._fail(tree.place, key, "must be " + " or ".join(map(in_words, others)))

    def _items(self, kind: Any, tree: Tree, key: str) -> Any:
        if isinstance(tree, Text) and tree.from_environment:
            tree = _comma_separated(tree)
        if not isinstance(tree, Items):
            return self._fail(tree.place, key, f"must be {in_words(kind)}")
        inner = get_args(kind)[0]
        values = [self.value(inner, one, f"{key}[{at}]") for at, one in enumerate(tree.items)]
        if FAILED in values:
            return FAILED
        return tuple(values) if get_origin(kind) is tuple else frozenset(values)

    def _map(self, kind: Any, tree: Tree, key: str) -> Any:
        if isinstance(tree, Text) and tree.from_environment:
            return self._fail(tree.place, key, "is a map of names, which only the file can set")
        if not isinstance(tree, Section):
            return self._fail(tree.place, key, f"must be {in_words(kind)}")
        inner = get_args(kind)[1]
        values = {
            name: self.value(inner, one, _join(key, name)) for name, one in tree.entries.items()
        }
        if FAILED in values.values():
            return FAILED
        return values if get_origin(kind) is dict else MappingProxyType(values)

    def _fail(self, place: Place, key: str, text: str) -> _Outcome:
        self._problems.append(ConfigProblem(place, key, text))
        return FAILED


def _says_nothing(tree: Tree) -> bool:
    """True for an empty value, which in the environment is an empty text."""
    if not isinstance(tree, Text):
        return False
    return tree.is_null or (tree.from_environment and not tree.text)


def _comma_separated(tree: Text) -> Items:
    parts = [part.strip() for part in tree.text.split(",")] if tree.text.strip() else []
    return Items(tree.place, tuple(dataclasses.replace(tree, text=part) for part in parts))


def _place_of(tree: Section, inner: str) -> Place:
    """The place of a dotted key below `tree`, or of the nearest section that was written."""
    place = tree.place
    for part in inner.partition("[")[0].split("."):
        if part not in tree.entries:
            break
        place = tree.key_places[part]
        entry = tree.entries[part]
        if not isinstance(entry, Section):
            break
        tree = entry
    return place


def _join(key: str, name: str) -> str:
    return f"{key}.{name}" if key and name else key or name
