"""Filters: one CEL expression over a message, compiled once, evaluated where it is received.

CEL (Common Expression Language) is Google's: no loops without end, no side effects, types checked
before anything runs. The library is loaded when the first filter is compiled, for most sidecars
have none. Pure but for that.

What is bounded, and by what: the text's length here; its depth (32), the iterations of its macros
(10,000) and the time of its regular expressions (RE2, linear) by the library; and the size of a
message that an expression may copy or go through again and again, here.
"""

import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, Final

import orjson

from log_format.frame import Frame
from sidecar.delivery.record_id import derived_id
from sidecar.errors import BadFilter
from sidecar.publish.message import is_json_type

EXPRESSION_BYTES_MAX: Final = 2_048
"""Longer ones are programs."""
COMPILED_MAX: Final = 256
"""Expressions that stay compiled, a few KB each: a thousand subscribers often share one."""
COSTLY_BYTES_MAX: Final = 64 * 1024
"""The largest message that a costly expression is evaluated on: ten thousand looks at so many
bytes take a second at worst. Larger messages do not match it, and count as errors."""

VARIABLES: Final = {
    "message": "DYN", "headers": "MAP", "key": "DYN", "topic": "STRING", "partition": "INT",
    "offset": "INT", "id": "STRING", "principal": "DYN", "timestamp": "TIMESTAMP",
    "content_type": "DYN",
}  # fmt: skip
"""What an expression may name, with its CEL type."""

_STRINGS: Final = re.compile(
    r"""(?:[bB]?[rR][bB]?)(?:\"{3}.*?\"{3}|'{3}.*?'{3}|\"[^\"\n]*\"|'[^'\n]*')"""
    r"""|[bB]?(?:\"{3}(?:\\.|[^\\])*?\"{3}|'{3}(?:\\.|[^\\])*?'{3}"""
    r"""|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*')""",
    re.DOTALL,
)
_NAMES: Final = re.compile(r"(?<![\w.])[A-Za-z_]\w*")
_MACROS: Final = re.compile(r"\.\s*(?:all|exists|exists_one|existsOne|map|filter)\s*\(")
_COPIES: Final = re.compile(r"\+|\b(?:string|bytes)\s*\(")
_PLACE: Final = re.compile(r"<input>:(\d+):(\d+): (.*)")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST_US: Final = -62_135_596_800_000_000
_LAST_US: Final = 253_402_300_799_999_999


class Filter:
    """A compiled expression, and how often it could not be evaluated. One for each reader."""

    __slots__ = ("_costly", "_names", "_run", "dropped", "errors", "text")

    def __init__(self, text: str) -> None:
        """Compile, or raise BadFilter that says where the fault is."""
        self._run, self._names, self._costly = _compiled(text)
        self.text = text
        self.errors = 0
        self.dropped = 0

    def select(self, frame: Frame, offsets: Sequence[int]) -> list[int]:
        """Those of the offsets whose messages match. The frame's hash must have been checked."""
        stamp = frame.envelope.stamp
        base = 0 if stamp is None else stamp.base_offset
        matches = self._matcher(frame)
        found = [offset for offset in offsets if matches(offset - base)]
        self.dropped += len(offsets) - len(found)
        return found

    def _matcher(self, frame: Frame) -> Callable[[int], bool]:
        producer, provenance, stamp = (
            frame.envelope.producer,
            frame.envelope.provenance,
            frame.envelope.stamp,
        )
        columns = frame.columns()
        base = 0 if stamp is None else stamp.base_offset
        per_record: dict[str, Callable[[int], Any]] = {
            "message": lambda index: self._message(columns, index),
            "headers": lambda index: _headers(columns.headers[index]),
            "key": lambda index: _text(columns.key[index]),
            "offset": lambda index: base + index,
            "id": lambda index: _identity(columns.id[index], producer, index),
            "timestamp": lambda index: _moment(columns.event_us[index]),
            "content_type": lambda index: _text(columns.content_type[index]),
        }
        fixed: dict[str, Any] = {
            "topic": producer.topic,
            "partition": producer.partition,
            "principal": None if provenance is None else provenance.principal,
        }
        used = [(name, per_record[name]) for name in self._names if name in per_record]

        def matches(index: int) -> bool:
            try:
                found = self._run({**fixed, **{name: read(index) for name, read in used}})
            except (RuntimeError, ValueError, TypeError, OverflowError, RecursionError):
                # RuntimeError is what the library raises where its budget is used up.
                self.errors += 1
                return False
            if found is not True and found is not False:
                self.errors += 1
                return False
            return found

        return matches

    def _message(self, columns: Any, index: int) -> Any:
        value, kind = columns.value[index] or b"", columns.content_type[index]
        if kind is not None and not is_json_type(kind):
            return None
        if self._costly and len(value) > COSTLY_BYTES_MAX:
            raise ValueError("too large for a costly expression")
        return orjson.loads(value)


@lru_cache(maxsize=COMPILED_MAX)
def _compiled(text: str) -> tuple[Callable[[dict[str, Any]], Any], frozenset[str], bool]:
    """What evaluates it, the variables that it names, and whether it is costly."""
    if not text.strip():
        raise BadFilter("is empty; leave it out to get every message", 1, 1)
    if len(text.encode("utf-8", "surrogatepass")) > EXPRESSION_BYTES_MAX:
        raise BadFilter(f"has more than {EXPRESSION_BYTES_MAX} bytes", 1, 1)
    bare = _STRINGS.sub(lambda found: '"' + " " * (len(found.group()) - 2) + '"', text)
    macro, copy = _MACROS.search(bare), _COPIES.search(bare)
    if macro is not None and copy is not None:
        line, column = _line_and_column(bare, copy.start())
        raise BadFilter("+, string() and bytes() cannot stand beside a macro", line, column)
    environment, boolean = _environment()
    try:
        program = environment.compile(text)
    except (RuntimeError, ValueError, TypeError) as error:
        raise _fault(str(error)) from error
    kind = program.return_type()
    if kind.name() not in boolean:
        raise BadFilter(f"gives {kind.name().lower()} and not true or false", 1, 1)

    def run(data: dict[str, Any]) -> Any:
        return program.eval(data=data).value()

    names = frozenset(_NAMES.findall(bare)) & VARIABLES.keys()
    return run, names, macro is not None or copy is not None


@lru_cache(maxsize=1)
def _environment() -> tuple[Any, frozenset[str]]:
    from cel_expr_python import cel  # noqa: PLC0415 - 9 MB that a sidecar without filters saves

    types = {name: getattr(cel.Type, kind) for name, kind in VARIABLES.items()}
    types["headers"] = cel.Type.Map(cel.Type.STRING, cel.Type.STRING)
    fitting = frozenset({cel.Type.BOOL.name(), cel.Type.DYN.name()})
    return cel.NewEnv(variables=types), fitting


def _fault(text: str) -> BadFilter:
    """The library's first complaint with its place."""
    found = _PLACE.search(text)
    if found is None:
        # What it says without a place is about the whole.
        return BadFilter(text.partition(": ")[2].partition(" [")[0] or text, 1, 1)
    line, column, what = found.groups()
    return BadFilter(what.partition(" (in container")[0], int(line), int(column))


def _line_and_column(text: str, at: int) -> tuple[int, int]:
    before = text[:at]
    return before.count("\n") + 1, at - (before.rfind("\n") + 1) + 1


def _text(stored: bytes | None) -> str | None:
    return None if stored is None else stored.decode("utf-8", "replace")


def _headers(stored: bytes | None) -> dict[str, str]:
    if stored is None:
        return {}
    headers = orjson.loads(stored)
    return {name: text for name, text in headers.items() if isinstance(text, str)}


def _identity(own: bytes | None, producer: Any, index: int) -> str:
    return derived_id(producer, index) if own is None else own.decode("utf-8", "replace")


def _moment(event_us: int) -> datetime:
    return _EPOCH + timedelta(microseconds=min(max(event_us, _FIRST_US), _LAST_US))
