"""What apps say on a subscriber's WebSocket: `ack`, `nack`, `seek`, `pause`, `resume`. Pure."""

import re
from typing import Annotated, Final

import msgspec
from msgspec import UNSET, Meta, UnsetType

from sidecar.delivery.offset_set import Range, ranges_of
from sidecar.delivery.start import Start, parse_start
from sidecar.errors import BadQuery

Partition = Annotated[int, Meta(ge=0, le=2**31 - 1)]
Offset = Annotated[int, Meta(ge=0, le=2**63 - 1)]
OFFSETS_MAX: Final = 10_000
"""Offsets or ranges in one frame; more of them come in several."""
DELAY_MS_MAX: Final = 3_600_000
"""An hour, which is the log's limit too."""


class _Which(msgspec.Struct, forbid_unknown_fields=True):
    partition: Partition = 0
    offset: Offset | UnsetType = UNSET
    offsets: Annotated[list[Offset], Meta(max_length=OFFSETS_MAX)] | UnsetType = UNSET
    ranges: Annotated[list[tuple[Offset, Offset]], Meta(max_length=OFFSETS_MAX)] | UnsetType = UNSET


class Ack(_Which, tag_field="type", tag="ack", forbid_unknown_fields=True):
    """These are processed."""


class Nack(_Which, tag_field="type", tag="nack", forbid_unknown_fields=True):
    """These are not, and shall come again."""

    delay_ms: Annotated[int, Meta(ge=0, le=DELAY_MS_MAX)] = 0


class Seek(msgspec.Struct, tag_field="type", tag="seek", forbid_unknown_fields=True):
    """Go on from another place, written as `from` is."""

    to: str
    partition: Partition | UnsetType = UNSET


class Pause(msgspec.Struct, tag_field="type", tag="pause", forbid_unknown_fields=True):
    """Send nothing more on this socket for now."""


class Resume(msgspec.Struct, tag_field="type", tag="resume", forbid_unknown_fields=True):
    """Go on sending."""


Command = Ack | Nack | Seek | Pause | Resume
_NAMED: Final = re.compile(r"field `([^`]*)`")
_DECODER: Final = msgspec.json.Decoder(Command)


def parse_command(text: str | bytes) -> Command:
    """A frame as a command, or BadQuery that names the member at fault."""
    try:
        command: Command = _DECODER.decode(text)
    except msgspec.ValidationError as error:
        problem, _, path = str(error).partition(" - at `$")
        named = _NAMED.search(problem)
        field = path.strip("`.").partition("[")[0] or (named.group(1) if named else "frame")
        raise BadQuery(field, problem) from error
    except (msgspec.DecodeError, RecursionError) as error:
        raise BadQuery("frame", f"is not JSON: {error}") from error
    if isinstance(command, Ack | Nack):
        _check_which(command)
    return command


def _check_which(command: Ack | Nack) -> None:
    given = [
        name for name in ("offset", "offsets", "ranges") if getattr(command, name) is not UNSET
    ]
    if len(given) != 1:
        raise BadQuery("offset", "give exactly one of offset, offsets and ranges")
    for first, last in command.ranges or ():
        if last < first:
            raise BadQuery("ranges", f"[{first},{last}] ends before it begins")


def ranges_in(command: Ack | Nack) -> list[Range]:
    """What it names, as ranges."""
    if command.ranges is not UNSET:
        return list(command.ranges)
    if command.offsets is not UNSET:
        return ranges_of(sorted(set(command.offsets)))
    return [] if command.offset is UNSET else [(command.offset, command.offset)]


def offsets_in(command: Nack) -> list[int]:
    """What it names, one by one."""
    ranges = ranges_in(command)
    if sum(last - first + 1 for first, last in ranges) > OFFSETS_MAX:
        raise BadQuery("ranges", f"name more than {OFFSETS_MAX} offsets; send several frames")
    return [offset for first, last in ranges for offset in range(first, last + 1)]


def start_of(command: Seek, partitions: tuple[int, ...] | None) -> Start:
    """Where a seek leads, for a reader of these partitions; BadQuery names `to`."""
    query = {"from": command.to}
    if command.partition is not UNSET:
        query["partition"] = str(command.partition)
    elif partitions is not None:
        query["partition"] = ",".join(map(str, partitions))
    try:
        return parse_start(query, None)
    except BadQuery as error:
        raise BadQuery("to", str(error).removeprefix("from: ")) from error
