"""What all routes share of the wire: content types, the headers of gatekeepers, JSON answers."""

from collections.abc import Mapping
from typing import Final

import orjson
from aiohttp import web

from core_log.control_state import Cause
from log_format.limits import NAME_BYTES_MAX

FRAMES_TYPE: Final = "application/vnd.sidegate.frames"
PRINCIPAL_HEADER: Final = "Sidegate-Principal"
DECISION_HEADER: Final = "Sidegate-Decision"


def json_response(
    value: object, *, status: int = 200, headers: Mapping[str, str] | None = None
) -> web.Response:
    """An answer as JSON."""
    return web.Response(
        body=orjson.dumps(value), status=status, content_type="application/json", headers=headers
    )


def cause_of(request: web.Request) -> Cause:
    """On whose behalf a gatekeeper asks, in its own words. Only gatekeepers get here."""
    return Cause(
        _name(request.headers.get(PRINCIPAL_HEADER)), _name(request.headers.get(DECISION_HEADER))
    )


def _name(value: str | None) -> str | None:
    """A header's value cut to what a name may have, so that no record grows by a caller's wish."""
    if not value:
        return None
    return value.encode()[:NAME_BYTES_MAX].decode("utf-8", "ignore")
