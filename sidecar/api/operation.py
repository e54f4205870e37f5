"""What an operation of the HTTP API is, and the answers that many have in common."""

from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from sidecar.api import api_types

SSE: Final = "text/event-stream"
JSON: Final = "application/json"
LINES: Final = "application/x-ndjson"


@dataclass(frozen=True, slots=True)
class Result:
    """One answer: its meaning, and its body's type and media type."""

    text: str
    body: Any = None
    media: str | tuple[str, ...] = JSON


@dataclass(frozen=True, slots=True)
class Operation:
    """One method of one path. `name` is the handler's."""

    name: str
    method: str
    path: str
    tag: str
    text: str
    results: dict[int, Result]
    query: type[msgspec.Struct] = api_types.NoQuery
    body: Any = None
    body_media: tuple[str, ...] = (JSON,)
    headers: dict[str, str] = field(default_factory=dict)


DENIED: Final = {403: Result("The policy denies it, or a web page of another site asks")}
BAD: Final = {400: Result("A field or parameter is wrong; the detail names it")}
DOWN: Final = {503: Result("No gatekeeper can be reached; see Retry-After")}
