"""Where a subscription begins: `from=earliest|latest|offset:N|time:ISO8601`, or a last event id.

Pure: from what a request says to the `from` of the wire's open message.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from sidecar.delivery.position import decode_position
from sidecar.errors import BadMessage, BadQuery
from sidecar.publish.message import event_time_us

_OFFSET_MAX: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Start:
    """What to open with. `partitions` None means all of them."""

    origin: object
    partitions: tuple[int, ...] | None

    @property
    def is_latest(self) -> bool:
        """True where only what comes from now on is wanted."""
        return self.origin == "latest"


def parse_start(query: Mapping[str, str], last_event_id: str | None) -> Start:
    """The start that a request asks for. A last event id wins over `from`."""
    partitions = parse_partition(query)
    if last_event_id:
        return resume(decode_position(last_event_id), partitions)
    text = query.get("from", "latest")
    if text in ("earliest", "latest"):
        return Start(text, partitions)
    kind, _, value = text.partition(":")
    if kind == "offset":
        if not value.isascii() or not value.isdigit() or int(value) > _OFFSET_MAX:
            raise BadQuery("from", f"offset:{value[:32]} is not an offset such as offset:17")
        at = partitions or (0,)
        return Start({"offsets": {str(partition): int(value) for partition in at}}, at)
    if kind == "time":
        try:
            # A plus sign in a URL is read as a space.
            return Start({"time_us": event_time_us(value.replace(" ", "+"), "from")}, partitions)
        except BadMessage as error:
            raise BadQuery("from", str(error).removeprefix("from: ")) from error
    raise BadQuery(
        "from", f"{text[:32]!r} is none of earliest, latest, offset:N and time:2026-01-31T12:00:00Z"
    )


def resume(offsets: Mapping[int, int], partitions: tuple[int, ...] | None) -> Start:
    """Continue exactly behind what was delivered; new partitions begin at their earliest."""
    if partitions is not None and not set(offsets) <= set(partitions):
        raise BadQuery("Last-Event-ID", "was sent for other partitions than `partition` asks for")
    origin = {"offsets": {str(partition): offset for partition, offset in offsets.items()}}
    return Start(origin, partitions)


def parse_partition(query: Mapping[str, str]) -> tuple[int, ...] | None:
    """The `partition` parameter: one number, or several with commas between."""
    text = query.get("partition")
    if text is None:
        return None
    numbers = text.split(",")
    if not all(each.isascii() and each.isdigit() and len(each) <= 9 for each in numbers):
        raise BadQuery("partition", f"{text[:32]!r} is not a number such as 0")
    return tuple(sorted({int(each) for each in numbers}))
