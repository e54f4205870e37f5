"""W3C trace context: the `traceparent` that says to which trace a request belongs. Pure.

https://www.w3.org/TR/trace-context/: 00-<32 hex trace id>-<16 hex parent id>-<2 hex flags>. One
that does not read so is ignored, as the recommendation demands: a bad trace is no reason to refuse
a message.
"""

import re
from dataclasses import dataclass
from typing import Final

TRACEPARENT: Final = "traceparent"
TRACESTATE: Final = "tracestate"
TRACESTATE_BYTES_MAX: Final = 512
"""What every participant must carry at least, by section 3.3.1.5; longer ones are dropped."""
_SAMPLED: Final = 0x01
# Versions above 00 may have more fields behind; ff is forbidden.
_FORM: Final = re.compile(r"(?!ff)([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_STATE: Final = re.compile(r"[\x20-\x7e]*")


@dataclass(frozen=True, slots=True)
class TraceContext:
    """A place in a trace: whoever is called from there becomes its child."""

    trace_id: int
    span_id: int
    sampled: bool
    state: str = ""

    @property
    def traceparent(self) -> str:
        """As it travels."""
        return f"00-{self.trace_id:032x}-{self.span_id:016x}-{int(self.sampled):02x}"


def parse_trace_context(traceparent: str | None, state: str | None = None) -> TraceContext | None:
    """The context that a `traceparent` names, or None where it names none."""
    match = None if traceparent is None else _FORM.fullmatch(traceparent)
    if match is None or (match[1] == "00" and match[5]):
        return None
    trace_id, span_id = int(match[2], 16), int(match[3], 16)
    if not trace_id or not span_id:
        return None
    if state is None or len(state) > TRACESTATE_BYTES_MAX or _STATE.fullmatch(state) is None:
        state = ""
    return TraceContext(trace_id, span_id, bool(int(match[4], 16) & _SAMPLED), state)
