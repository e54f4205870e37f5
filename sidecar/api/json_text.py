"""Whether bytes are one JSON text, by RFC 8259 and nothing beyond. Pure.

Whoever puts a payload into a larger JSON document as it stands must ask here first: a text that
only looks like JSON could forge the members around it.
"""

import json
from typing import Final, NoReturn

import orjson

_FIRST: Final = frozenset(b'{["-0123456789tfn \t\r\n')
"""What a JSON text can begin with. Other bytes need no second look."""


def is_json(value: bytes) -> bool:
    """True for a JSON text in UTF-8.

    The fast parser also refuses what is JSON and fits no double or no Unicode text: `1e400`, a lone
    surrogate. Those are read again by the grammar alone, so that they travel as they are. A text
    that is nested deeper than Python's own stack is not taken for JSON.
    """
    try:
        orjson.loads(value)
    except orjson.JSONDecodeError:
        return bool(value) and value[0] in _FIRST and _by_grammar(value)
    return True


def _by_grammar(value: bytes) -> bool:
    try:
        json.loads(value.decode("utf-8"), parse_int=str, parse_float=str, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return False
    return True


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")
