"""JSON objects with one meaning only, for what strangers send: tokens, keys, issuer documents.

Python's `json` lets the last of two equal members win, and reads NaN, lone surrogates and other
encodings than UTF-8; another reader of the same bytes may then see another object. Two parsers
read the bytes here: orjson for the grammar and the value, `json` for members that stand twice.
Pure; imports nothing of the project.
"""

import json
from typing import Any, Final

import orjson

DEPTH_MAX: Final = 8
"""Objects and lists inside each other. Tokens, key sets and metadata have three or four."""
VALUES_MAX: Final = 4096
"""Values in one document, members and items at all depths: bounds the memory of a parsed one."""


class NotStrictJson(ValueError):
    """The bytes are not an object that every reader would understand alike."""


def load_object(data: bytes) -> dict[str, Any]:
    """The JSON object in `data`. Raises NotStrictJson for anything else, or anything doubtful."""
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise NotStrictJson("not JSON in UTF-8") from error
    if not isinstance(value, dict):
        raise NotStrictJson("not a JSON object")
    _check_bounds(value)
    # Only now, with the depth known to be small, the second parser can't exhaust its stack.
    # Numbers are not read again: a long one is slow to convert, and orjson has its value.
    json.loads(data, object_pairs_hook=_refuse_duplicates, parse_int=str, parse_float=str)
    return value


def _refuse_duplicates(pairs: list[tuple[str, Any]]) -> None:
    if len({name for name, _ in pairs}) != len(pairs):
        raise NotStrictJson("a member stands twice in one object")


def _check_bounds(document: dict[str, Any]) -> None:
    level: list[Any] = [document]
    count = 0
    for _depth in range(DEPTH_MAX):
        below: list[Any] = []
        for value in level:
            if isinstance(value, dict):
                below.extend(value.values())
            elif isinstance(value, list):
                below.extend(value)
        count += len(below)
        if count > VALUES_MAX:
            raise NotStrictJson(f"more than {VALUES_MAX} values")
        if not below:
            return
        level = below
    if any(isinstance(value, dict | list) for value in level):
        raise NotStrictJson(f"nested deeper than {DEPTH_MAX} levels")
