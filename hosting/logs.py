"""Log lines: one JSON object each, or readable text on a terminal.

    log = logging.getLogger("sidegate.core")
    log.info("segment sealed", extra={"fields": {"bytes": 1024}})

The event text is constant and the facts are fields, so that lines can be searched. Standard
library only. Secrets must not be logged at all; what is redacted here is a second net.
"""

import json
import logging
import math
import os
import re
import sys
import time
from collections.abc import Mapping
from contextvars import ContextVar
from typing import IO, Any, Final

request_id: ContextVar[str | None] = ContextVar("request_id", default=None)
"""The id of the request that is being answered; every line written meanwhile carries it."""

REDACTED: Final = "[redacted]"
_SECRET_NAMES: Final = frozenset(
    {"token", "authorization", "secret", "password", "key_material", "private_key"}
)
_SECRET_SUFFIXES: Final = ("_token", "_secret", "_password")
_SECRET_TEXT: Final = re.compile(
    r"(?P<scheme>\b(?:Bearer|Basic|DPoP)\s+)[A-Za-z0-9._~+/=-]{8,}"
    r"|\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)",
    re.DOTALL,
)
_DEPTH_MAX: Final = 6
"""Fields are facts, not documents: deeper values are shown by their type's name."""
_UNPRINTABLE: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
"""What steers a terminal, turns the direction of a text, or can't be encoded."""
_COLOURS: Final = {"DEBUG": "\033[2m", "WARNING": "\033[33m", "ERROR": "\033[31m"} | {
    "CRITICAL": "\033[1;31m"
}
_RESET: Final = "\033[0m"
_DIM: Final = "\033[2m"


def configure_logging(service: str, level: str = "info", stream: IO[str] | None = None) -> None:
    """Send every log line of the process to `stream` (standard error unless given).

    JSON lines, or text where the stream is a terminal. Replaces what was configured before.
    """
    stream = sys.stderr if stream is None else stream
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        TerminalFormatter(colour="NO_COLOR" not in os.environ)
        if stream.isatty()
        else JsonFormatter(service)
    )
    root = logging.getLogger()
    for old in list(root.handlers):
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(logging.WARNING)
    logging.getLogger("sidegate").setLevel(level.upper())
    logging.captureWarnings(capture=True)


class JsonFormatter(logging.Formatter):
    """One JSON object a line: ts, level, service, logger, event, request_id, then the fields."""

    def __init__(self, service: str) -> None:
        super().__init__()
        self._service = service

    def format(self, record: logging.LogRecord) -> str:
        """The record as one line that ends where it ends: no newline is left unescaped."""
        line: dict[str, Any] = {
            "ts": _timestamp(record.created),
            "level": record.levelname.lower(),
            "service": self._service,
            "logger": record.name,
            "event": _without_secrets(record.getMessage()),
        }
        current = request_id.get()
        if current is not None:
            line["request_id"] = current
        for name, value in _fields(record).items():
            line.setdefault(name, value)
        trace = _exception(self, record)
        if trace is not None:
            line["exception"] = trace
        return json.dumps(line, default=_shown, separators=(",", ":"))


class TerminalFormatter(logging.Formatter):
    """A line for people: time, level, event, fields; a traceback below it where there is one."""

    def __init__(self, *, colour: bool) -> None:
        super().__init__()
        self._colour = colour

    def format(self, record: logging.LogRecord) -> str:
        """The record as text in which no control character of a field reaches the terminal."""
        clock = time.strftime("%H:%M:%S", time.localtime(record.created))
        level = f"{record.levelname.lower():8}"
        facts = dict(_fields(record))
        current = request_id.get()
        if current is not None:
            facts.setdefault("request_id", current)
        shown = " ".join(f"{_on_one_line(name)}={_readable(one)}" for name, one in facts.items())
        event = _on_one_line(_without_secrets(record.getMessage()))
        if self._colour:
            level = f"{_COLOURS.get(record.levelname, '')}{level}{_RESET}"
            shown = f"{_DIM}{shown}{_RESET}" if shown else ""
        name = record.name.removeprefix("sidegate.")
        line = f"{clock} {level} {name}: {event}" + (f"  {shown}" if shown else "")
        trace = _exception(self, record)
        return line if trace is None else f"{line}\n{_printable(trace)}"


def redact(value: object, depth: int = 0) -> object:
    """`value` as JSON can hold it, without what its field names or texts show to be secret."""
    if isinstance(value, Mapping):
        if depth >= _DEPTH_MAX:
            return _shown(value)
        return {
            str(name): REDACTED if is_secret_name(str(name)) else redact(inner, depth + 1)
            for name, inner in value.items()
        }
    if isinstance(value, list | tuple | set | frozenset):
        return _shown(value) if depth >= _DEPTH_MAX else [redact(one, depth + 1) for one in value]
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    return _without_secrets(_shown(value))


def is_secret_name(name: str) -> bool:
    """True for field names whose values are never printed."""
    name = name.lower().replace("-", "_")
    return name in _SECRET_NAMES or name.endswith(_SECRET_SUFFIXES)


def _fields(record: logging.LogRecord) -> Mapping[str, Any]:
    fields = getattr(record, "fields", None)
    if not isinstance(fields, Mapping):
        return {}
    clean = redact(fields)
    return clean if isinstance(clean, dict) else {}


def _exception(formatter: logging.Formatter, record: logging.LogRecord) -> str | None:
    if not record.exc_info or record.exc_info[0] is None:
        return None
    return _without_secrets(formatter.formatException(record.exc_info))


def _without_secrets(text: str) -> str:
    return _SECRET_TEXT.sub(lambda match: (match["scheme"] or "") + REDACTED, text)


def _shown(value: object) -> str:
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value)


def _readable(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, default=_shown)
    text = _on_one_line(text)
    return repr(text) if isinstance(value, str) and (" " in text or not text) else text


def _on_one_line(text: str) -> str:
    return _printable(text).replace("\n", "\\n").replace("\t", "\\t")


def _printable(text: str) -> str:
    return _UNPRINTABLE.sub(lambda match: f"\\x{ord(match[0]):02x}", text)


def _timestamp(seconds: float) -> str:
    micros = round(seconds * 1_000_000)
    whole, part = divmod(micros, 1_000_000)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(whole))}.{part:06d}Z"
