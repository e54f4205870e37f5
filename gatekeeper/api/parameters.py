"""Query parameters and JSON bodies, read strictly: unknown, repeated or malformed ones are errors.

What passes is written anew for the core, so that a request can't mean one thing here and another
there. Pure functions.
"""

from collections.abc import Mapping
from typing import Any, Final

from multidict import MultiMapping

from gatekeeper.errors import BadRequest
from gatekeeper.identity.strict_json import NotStrictJson, load_object
from log_format.errors import FormatError
from log_format.topic import check_any_topic, check_topic

INT64_MAX: Final = 2**63 - 1


def known_query(query: MultiMapping[str], known: frozenset[str]) -> dict[str, str]:
    """The parameters by name, each known and given once."""
    given: dict[str, str] = {}
    for name, value in query.items():
        if name not in known:
            allowed = ", ".join(sorted(known)) or "none"
            raise BadRequest(f"query: {name[:40]!r} is unknown here; known are: {allowed}")
        if name in given:
            raise BadRequest(f"query: {name} is given twice")
        given[name] = value
    return given


def required(given: Mapping[str, str], name: str) -> str:
    """A parameter that must be there."""
    if name not in given:
        raise BadRequest(f"query: {name} is missing")
    return given[name]


def whole_number(text: str, name: str, *, at_most: int = INT64_MAX) -> int:
    """A decimal number from 0 to `at_most`, in plain digits."""
    if not (text.isascii() and text.isdigit() and len(text) <= 19 and int(text) <= at_most):
        raise BadRequest(f"{name}: must be a whole number from 0 to {at_most}")
    return int(text)


def topic_name(name: object, *, system: bool = True) -> str:
    """A topic's name; the system's own ones only where `system` says so."""
    try:
        return check_any_topic(name) if system else check_topic(name)
    except FormatError as error:
        raise BadRequest(str(error)) from error


def json_object(text: bytes) -> dict[str, Any]:
    """A JSON object that every reader would understand alike."""
    try:
        return load_object(text)
    except NotStrictJson as error:
        raise BadRequest(f"the body is no sound JSON object: {error}") from error
