"""Patterns by segment: which of ten thousand fit a topic, without looking at ten thousand.

A look-up visits only branches that the topic's own segments lead to, so its cost grows with the
topic's depth and with how many patterns overlap on it, never with how many there are. May import
`pattern`; must never know what is kept under one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from gatekeeper.policy.pattern import Pattern, Template

T = TypeVar("T")


@dataclass(slots=True)
class _Branch(Generic[T]):
    """What follows one segment. `here` ends at this segment, `rest` is a `>` behind it."""

    names: dict[str, "_Branch[T]"] = field(default_factory=dict)
    templates: dict[Template, "_Branch[T]"] = field(default_factory=dict)
    wild: "_Branch[T] | None" = None
    here: list[T] = field(default_factory=list)
    rest: list[T] = field(default_factory=list)


class PatternTrie(Generic[T]):
    """Values under patterns. Filled once, then only read.

    The caller keeps system topics away: neither wildcard may ever see one.
    """

    __slots__ = ("_root", "size")

    def __init__(self) -> None:
        self._root: _Branch[T] = _Branch()
        self.size = 0

    def add(self, pattern: Pattern, value: T) -> None:
        """Put a value under a pattern; one pattern may hold several."""
        branch = self._root
        for segment in pattern.segments:
            if isinstance(segment, str):
                branch = branch.names.setdefault(segment, _Branch())
            elif isinstance(segment, Template):
                branch = branch.templates.setdefault(segment, _Branch())
            else:
                branch.wild = branch.wild or _Branch()
                branch = branch.wild
        (branch.rest if pattern.rest else branch.here).append(value)
        self.size += 1

    def fitting(self, topic: Sequence[str], values: Mapping[Template, str]) -> list[T]:
        """What fits the topic's segments with the templates that have a value."""
        found: list[T] = []
        level = [self._root]
        for segment in topic:
            below: list[_Branch[T]] = []
            for branch in level:
                if branch.rest:
                    found += branch.rest
                named = branch.names.get(segment)
                if named is not None:
                    below.append(named)
                if branch.wild is not None:
                    below.append(branch.wild)
                if branch.templates and values:
                    below += _resolved(branch.templates, segment, values)
            if not below:
                return found
            level = below
        for branch in level:
            found += branch.here
        return found

    def covering(self, topic: Sequence[str]) -> list[T]:
        """What could fit the topic's segments, whatever the templates' values are."""
        found: list[T] = []
        level = [self._root]
        for segment in topic:
            below: list[_Branch[T]] = []
            for branch in level:
                if branch.rest:
                    found += branch.rest
                named = branch.names.get(segment)
                if named is not None:
                    below.append(named)
                if branch.wild is not None:
                    below.append(branch.wild)
                below += branch.templates.values()
            if not below:
                return found
            level = below
        for branch in level:
            found += branch.here
        return found


def _resolved(
    templates: Mapping[Template, _Branch[T]], segment: str, values: Mapping[Template, str]
) -> list[_Branch[T]]:
    # A caller has few claims and a branch has few templates; the fewer of the two are looked at.
    if len(values) < len(templates):
        return [
            templates[template]
            for template, value in values.items()
            if value == segment and template in templates
        ]
    return [branch for template, branch in templates.items() if values.get(template) == segment]
