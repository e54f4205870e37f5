"""Looks an app's id up in the log: for an id that an earlier run accepted and did not settle."""

from typing import Final

from log_format.errors import FormatError
from log_format.frame import iter_frames
from sidecar.batch import Committed
from sidecar.gateway import Answer, Gateway, Unreachable

SEARCH_BYTES_MAX: Final = 256 * 1024 * 1024
"""Read at most, from the time at which the id was accepted: beyond it the answer is "unknown"."""
READ_BYTES: Final = 4 * 1024 * 1024
MARGIN_US: Final = 5_000_000
"""Sidecar and core need not have the same time to the second."""


class CannotTell(Exception):
    """The log could not be searched; the text says why."""


async def find_id(gateway: Gateway, topic: str, identity: bytes, since_us: int) -> Committed | None:
    """Where the message with this id is, None if it is not in the log, or CannotTell."""
    query = {"time_us": str(max(0, since_us - MARGIN_US))}
    answer = await _ask(gateway, f"/v1/topics/{topic}/offsets", query)
    if answer.status == 404:
        return None
    document = answer.document()
    if answer.status != 200 or not isinstance(document, dict):
        raise CannotTell(f"the log's offsets cannot be read (status {answer.status})")
    left = SEARCH_BYTES_MAX
    for each in document.get("partitions", ()):
        partition, offset = int(each["partition"]), int(each["offset"])
        while offset < int(each["end_offset"]):
            if left <= 0:
                raise CannotTell("too much was written since to search all of it")
            found, offset, size = await _search(gateway, topic, partition, offset, identity)
            if found is not None:
                return found
            if not size:
                break
            left -= size
    return None


async def _search(
    gateway: Gateway, topic: str, partition: int, offset: int, identity: bytes
) -> tuple[Committed | None, int, int]:
    query = {
        "topic": topic,
        "partition": str(partition),
        "offset": str(offset),
        "max_bytes": str(READ_BYTES),
    }
    answer = await _ask(gateway, "/v1/read", query)
    if answer.status != 200:
        raise CannotTell(f"the log cannot be read (status {answer.status})")
    try:
        for frame in iter_frames(answer.body):
            stamp, columns = frame.envelope.stamp, frame.columns()
            if stamp is None:
                raise CannotTell("the log's answer has no offsets")
            offset = stamp.base_offset + columns.count
            if columns.id.all_null:
                continue
            for index, own in enumerate(columns.id):
                if own == identity:
                    at = stamp.base_offset + index
                    text = identity.decode("utf-8", "replace")
                    return Committed(topic, partition, at, text, "committed"), offset, 0
    except FormatError as error:
        raise CannotTell(f"the log's answer is damaged: {error}") from error
    return None, offset, len(answer.body)


async def _ask(gateway: Gateway, path: str, query: dict[str, str]) -> Answer:
    try:
        return await gateway.ask("GET", path, query=query)
    except Unreachable as error:
        raise CannotTell(str(error)) from error
