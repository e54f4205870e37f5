"""Reads the head of the one request that has to be fast: a plain `POST /publish`.

Strict on purpose: whatever is not exactly understood is not for this path, and aiohttp's parser
judges it. So nothing is accepted here that aiohttp would read differently. Pure.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qsl

from hosting.front import HEAD_BYTES_MAX
from sidecar.api.api_types import PublishQuery, parse_query
from sidecar.api.guard import Guard
from sidecar.errors import SidecarError
from sidecar.publish.batch import Ack

_LINE: Final = re.compile(rb"POST /publish(?:\?([!-~]*))? HTTP/1\.1")
_FIELD: Final = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([\x20-\x7e\x80-\xff\t]*)")
_LENGTH: Final = re.compile(rb"[0-9]{1,10}")
_NOT_FAST: Final = frozenset(
    {
        b"transfer-encoding",
        b"content-encoding",
        b"expect",
        b"upgrade",
        b"te",
        b"trailer",
        b"authorization",
        b"origin",
        b"referer",
        b"content-range",
        b"traceparent",
    }
)
_NOT_FAST_PREFIXES: Final = (b"sec-", b"sidegate-", b"ce-", b"proxy-")


@dataclass(frozen=True, slots=True)
class Plan:
    """What a head asks for."""

    content_length: int
    ack: Ack
    timeout_s: float


def parse_head(
    head: bytes, guard: Guard, body_bytes_max: int, patience: Callable[[int | None], float]
) -> Plan | None:
    """The plan for a head without its empty line, or None where it is not for this path."""
    if len(head) > HEAD_BYTES_MAX:
        return None
    line, *fields = head.split(b"\r\n")
    match = _LINE.fullmatch(line)
    if match is None:
        return None
    values: dict[bytes, bytes] = {}
    for field in fields:
        parts = _FIELD.fullmatch(field)
        if parts is None:
            return None
        name = parts[1].lower()
        if name in values or name in _NOT_FAST or name.startswith(_NOT_FAST_PREFIXES):
            return None
        values[name] = parts[2].rstrip(b" \t")
    if values.get(b"connection", b"keep-alive").lower() != b"keep-alive":
        return None
    length = values.get(b"content-length", b"")
    if _LENGTH.fullmatch(length) is None or int(length) > body_bytes_max:
        return None
    if not guard.is_own_host(values.get(b"host", b"").decode("latin-1")):
        return None
    query = _query(match[1] or b"", patience)
    return None if query is None else Plan(int(length), *query)


def _query(text: bytes, patience: Callable[[int | None], float]) -> tuple[Ack, float] | None:
    if b"%" in text or b"+" in text:
        return None
    pairs = parse_qsl(text.decode("ascii"), keep_blank_values=True)
    if len(pairs) != len(dict(pairs)):
        return None
    try:
        query = parse_query(dict(pairs), PublishQuery)
        return Ack(query.ack), patience(query.timeout_ms)
    except SidecarError:
        return None
