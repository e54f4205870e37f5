"""What all routes share of the wire: content types, the headers of gatekeepers, JSON answers."""

from collections.abc import Mapping
from typing import Final

import orjson
from aiohttp import web

from core_log.api.query import BadQuery
from core_log.control.control_state import Cause
from log_format.limits import NAME_BYTES_MAX

FRAMES_TYPE: Final = "application/vnd.sidegate.frames"
PRINCIPAL_HEADER: Final = "Sidegate-Principal"
DECISION_HEADER: Final = "Sidegate-Decision"
TOPIC_HEADER: Final = "Sidegate-Topic"
"""The topic about which a gatekeeper decided, where the path names something else."""

_ETAG_DIGITS_MAX: Final = 16


def json_response(
    value: object, *, status: int = 200, headers: Mapping[str, str] | None = None
) -> web.Response:
    """An answer as JSON."""
    return web.Response(
        body=orjson.dumps(value), status=status, content_type="application/json", headers=headers
    )


def cause_of(request: web.Request) -> Cause:
    """On whose behalf a gatekeeper asks, in its own words. Only gatekeepers get here."""
    return named_cause(request.headers.get(PRINCIPAL_HEADER), request.headers.get(DECISION_HEADER))


def named_cause(principal: str | None, decision: str | None) -> Cause:
    """The same from the values of the two headers."""
    return Cause(_name(principal), _name(decision))


def if_version(request: web.Request) -> int | None:
    """The version that `If-Match` asks for. A version is a strong entity tag of digits."""
    value = request.headers.get("If-Match")
    if value is None or value == "*":
        return None
    digits = value.strip().strip('"')
    if not (digits.isascii() and digits.isdigit() and len(digits) <= _ETAG_DIGITS_MAX):
        raise BadQuery('If-Match: must be a version in quotes, such as "17"')
    return int(digits)


def _name(value: str | None) -> str | None:
    """A header's value cut to what a name may have, so that no record grows by a caller's wish."""
    if not value:
        return None
    return value.encode()[:NAME_BYTES_MAX].decode("utf-8", "ignore")
