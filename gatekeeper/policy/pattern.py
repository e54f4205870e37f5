"""Topic patterns: what a rule is about.

A pattern is segments between dots. A segment is a name, `*` for exactly one segment, or
`{issuer:claim}` for the caller's own claim; `>` as the last segment stands for the rest, one
segment or more. Only a pattern without wildcards or templates names a system topic. Case counts.

May import `log_format`; must never know of rules or callers.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

from gatekeeper.policy.problem import shown
from log_format.errors import BadField
from log_format.topic import check_any_topic, is_system_topic

PATTERN_CHARS_MAX: Final = 480
"""With `topics."` and `".subscribe` around it, a rule's id stays within the 512 bytes that a
batch's provenance gives it."""
TEMPLATE_VALUE: Final = re.compile(r"[a-z0-9-]+")
"""What a claim must fully match to stand in a topic: one segment, no wildcard, one spelling."""
CLAIM_NAME: Final = re.compile(r"[A-Za-z0-9_.:/@#+$-]{1,128}")
"""Claims that a policy can name; `https://example.com/team` is one that providers make."""

_SEGMENT: Final = re.compile(r"[A-Za-z0-9_-]+")
_DOT: Final = re.compile(r"\.(?![^{}]*\})")
"""A dot that separates segments: a claim's name may hold dots too."""
_TEMPLATE: Final = re.compile(r"\{([^:{}]+):([^{}]+)\}")


class Template(NamedTuple):
    """A claim of the caller's token, which counts only if that issuer made the token."""

    issuer: str
    claim: str

    def __str__(self) -> str:
        return f"{{{self.issuer}:{self.claim}}}"


class Wild(Enum):
    """`*`."""

    ONE = "*"


Segment = str | Template | Wild


@dataclass(frozen=True, slots=True)
class Pattern:
    """A parsed pattern. `rest` is true where it ends in `>`, which is not among the segments."""

    text: str
    segments: tuple[Segment, ...]
    rest: bool

    @property
    def exact(self) -> bool:
        """True where the pattern is a topic's name."""
        return not self.rest and all(isinstance(segment, str) for segment in self.segments)

    @property
    def templates(self) -> Iterator[tuple[int, Template]]:
        """Each template with its segment's place."""
        for place, segment in enumerate(self.segments):
            if isinstance(segment, Template):
                yield place, segment

    @property
    def specificity(self) -> tuple[int, ...]:
        """Sorts the more specific first: name, template, `*`, `>`, from the left."""
        kinds = [
            0 if isinstance(segment, str) else 1 if isinstance(segment, Template) else 2
            for segment in self.segments
        ]
        return (*kinds, 3) if self.rest else tuple(kinds)

    def covers(self, topic: Sequence[str]) -> bool:
        """True where the topic's segments fit, whatever the templates turn out to be."""
        if len(topic) <= len(self.segments) if self.rest else len(topic) != len(self.segments):
            return False
        return all(
            not isinstance(mine, str) or mine == its
            for mine, its in zip(self.segments, topic, strict=False)
        )


def parse_pattern(text: str) -> Pattern:
    """A pattern from its text, or ValueError that says what to write instead."""
    if len(text) > PATTERN_CHARS_MAX:
        raise ValueError(f"the pattern has {len(text)} characters; at most {PATTERN_CHARS_MAX}")
    if is_system_topic(text) or not any(mark in text for mark in "*>{}"):
        return _exact(text)
    parts = _DOT.split(text)
    rest = parts[-1] == ">"
    named = parts[:-1] if rest else parts
    return Pattern(text, tuple(_segment(part, place) for place, part in enumerate(named)), rest)


def _exact(text: str) -> Pattern:
    try:
        check_any_topic(text)
    except BadField as error:
        hint = "; a system topic is named exactly, without wildcards" if text[:1] == "_" else ""
        hint = hint or ('; put quotes around ">"' if not text.strip() else "")
        raise ValueError(f"{shown(text)} is not a topic or pattern: {error}{hint}") from error
    return Pattern(text, tuple(text.split(".")), rest=False)


def _segment(part: str, place: int) -> Segment:
    if part == "*":
        return Wild.ONE
    if not part:
        raise ValueError("has an empty segment; put one name, * or template between two dots")
    if part == ">":
        raise ValueError("'>' stands for the rest of a topic and must be the last segment")
    if "{" in part or "}" in part:
        return _template(part)
    if "*" in part or ">" in part:
        raise ValueError(
            f"{shown(part)}: '*' and '>' stand for whole segments and can't be part of one"
        )
    if _SEGMENT.fullmatch(part) is None:
        raise ValueError(f"{shown(part)}: a segment has letters, digits, '_' and '-' only")
    if place == 0 and not part[0].isalnum():
        raise ValueError(f"{shown(part)}: a topic begins with a letter or digit")
    return part


def _template(part: str) -> Template:
    match = _TEMPLATE.fullmatch(part)
    if match is None:
        raise ValueError(
            f"{shown(part)}: a template is a whole segment of the form {{issuer:claim}}"
        )
    if CLAIM_NAME.fullmatch(match[2]) is None:
        raise ValueError(f"{shown(part)}: {shown(match[2])} is not a claim's name")
    return Template(match[1], match[2])
