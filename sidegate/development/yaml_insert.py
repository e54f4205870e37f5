"""Puts an entry or an item into YAML text and leaves every other character as it is.

Users write comments and spaces into their files for a reason, so nothing is loaded and dumped: the
parser's marks say where a table or list ends, and the text is cut there. What comes out is read
again and must hold what was there before and the addition, or nothing is returned. Pure; may
import PyYAML; must never know what the text is about.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import yaml


class CannotInsert(ValueError):
    """The text is not of a form that can be added to; the message says what to add by hand."""


def load(text: str) -> Any:
    """The text as tables, lists and strings: no scalar is taken for anything but text."""
    try:
        return yaml.load(text, yaml.BaseLoader)  # noqa: S506 - makes strings only
    except yaml.YAMLError as error:
        raise CannotInsert(f"is not YAML: {error}") from error


def with_entry(
    text: str, path: Sequence[str], key: str, value: str, comment: str | None = None
) -> str:
    """`text` with `key: value` as the last entry of the table at `path`.

    `key` and `value` are YAML, the value on one line; `comment` stands above where there is room.
    """
    node = _at(text, path)
    added = f"{key}: {value}"
    by_hand = CannotInsert(f"add it by hand, in {_where(path)}: {added}")
    if not isinstance(node, yaml.MappingNode):
        raise by_hand
    if node.flow_style:
        result = _into_flow(text, node, added)
    elif node.value:
        result = _after_block(text, node, node.value[0][0].start_mark.column, added, comment)
    else:
        raise by_hand
    expected = load(text)
    _find(expected, path)[load(key)] = load(value)
    return _checked(result, expected, by_hand)


def with_item(text: str, path: Sequence[str], item: str) -> str:
    """`text` with `item`, which is YAML on one line, as the last of the list at `path`."""
    node = _at(text, path)
    by_hand = CannotInsert(f"add it by hand, in {_where(path)}: {item}")
    if not isinstance(node, yaml.SequenceNode):
        raise by_hand
    if node.flow_style:
        result = _into_flow(text, node, item)
    elif node.value:
        # The list's mark is at its first dash.
        result = _after_block(text, node, node.start_mark.column, f"- {item}", None)
    else:
        raise by_hand
    expected = load(text)
    _find(expected, path).append(load(item))
    return _checked(result, expected, by_hand)


def _at(text: str, path: Sequence[str]) -> yaml.Node | None:
    node = yaml.compose(text, Loader=yaml.SafeLoader)
    for name in path:
        if not isinstance(node, yaml.MappingNode):
            return None
        node = next((value for key, value in node.value if key.value == name), None)
    return node


def _find(document: Any, path: Sequence[str]) -> Any:
    for name in path:
        document = document[name]
    return document


def _into_flow(text: str, node: yaml.CollectionNode, added: str) -> str:
    """Before the closing bracket; a comma goes behind what is there already."""
    if not node.value:
        inside = node.end_mark.index - 1
        return f"{text[: node.start_mark.index + 1]}{added}{text[inside:]}"
    end = _end_of(node.value[-1])
    # A comma after the last one is legal YAML, and then ours is one too many.
    gap = text[end : node.end_mark.index - 1]
    comma = "" if gap.lstrip().startswith(",") else ","
    if not comma:
        end += gap.index(",") + 1
    return f"{text[:end]}{comma} {added}{text[end:]}"


def _after_block(
    text: str, node: yaml.CollectionNode, column: int, added: str, comment: str | None
) -> str:
    """On a line of its own behind the last one, which may end in a comment."""
    end = _end_of(node.value[-1])
    newline = "\r\n" if "\r\n" in text else "\n"
    if end == 0 or text[end - 1] != "\n":
        line_end = text.find("\n", end)
        if line_end < 0:
            text, end = text + newline, len(text + newline)
        else:
            end = line_end + 1
    indent = " " * column
    lines = [f"{indent}# {comment}", f"{indent}{added}"] if comment else [f"{indent}{added}"]
    return text[:end] + "".join(line + newline for line in lines) + text[end:]


def _end_of(last: Any) -> int:
    """Where the last scalar or flow collection ends. The mark of a block collection itself is no
    use: it lies behind the comments that follow, at whatever comes next."""
    node = last[1] if isinstance(last, tuple) else last
    while isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        inner = node.value[-1]
        node = inner[1] if isinstance(inner, tuple) else inner
    return int(node.end_mark.index)


def _where(path: Sequence[str]) -> str:
    return ".".join(path) or "the file"


def _checked(result: str, expected: Any, by_hand: CannotInsert) -> str:
    try:
        found = yaml.load(result, yaml.BaseLoader)  # noqa: S506 - makes strings only
    except yaml.YAMLError as error:
        raise by_hand from error
    if found != expected:
        raise by_hand
    return result
