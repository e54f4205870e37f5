"""Looks ids up in the log: of messages that were accepted and whose fate was never learnt.

An id is what repeats are recognised by, or the one that a record without an id of its own is known
by; both are in `record_id.py`.
"""

from collections.abc import Collection
from typing import Final

from log_format.errors import FormatError
from log_format.frame import Frame, iter_frames
from sidecar.delivery.record_id import derived_id, id_prefix, scoped_id
from sidecar.publish.batch import Committed
from sidecar.uplink.gateway import Answer, Gateway, Unreachable

SEARCH_BYTES_MAX: Final = 256 * 1024 * 1024
"""Read at most, from the time at which the id was accepted: beyond it the answer is "unknown"."""
READ_BYTES: Final = 4 * 1024 * 1024
MARGIN_US: Final = 5_000_000
"""Sidecar and core need not have the same time to the second."""

Found = dict[bytes, Committed]
"""Where each id is that was found."""


class CannotTell(Exception):
    """The log could not be searched; the text says why."""


async def find_id(gateway: Gateway, topic: str, identity: bytes, since_us: int) -> Committed | None:
    """Where the message with this id is, None if it is not in the log, or CannotTell."""
    return (await find_ids(gateway, topic, {identity}, since_us)).get(identity)


async def find_ids(
    gateway: Gateway, topic: str, identities: Collection[bytes], since_us: int
) -> Found:
    """Where those of the ids are that are in the log, in one search; or CannotTell."""
    query = {"time_us": str(max(0, since_us - MARGIN_US))}
    answer = await _ask(gateway, f"/v1/topics/{topic}/offsets", query)
    if answer.status == 404:
        return {}
    document = answer.document()
    if answer.status != 200 or not isinstance(document, dict):
        raise CannotTell(f"the log's offsets cannot be read (status {answer.status})")
    wanted = frozenset(identities)
    found: Found = {}
    left = SEARCH_BYTES_MAX
    for each in document.get("partitions", ()):
        partition, offset, end = (int(each[k]) for k in ("partition", "offset", "end_offset"))
        while offset < end and len(found) < len(wanted):
            if left <= 0:
                raise CannotTell("too much was written since to search all of it")
            offset, size = await _search(gateway, topic, partition, offset, wanted, found)
            if not size:
                break
            left -= size
    return found


async def _search(
    gateway: Gateway,
    topic: str,
    partition: int,
    offset: int,
    wanted: frozenset[bytes],
    found: Found,
) -> tuple[int, int]:
    """Search one read's frames; where to go on, and how many bytes they were."""
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
            stamp = frame.envelope.stamp
            if stamp is None:
                raise CannotTell("the log's answer has no offsets")
            offset = stamp.base_offset + frame.envelope.producer.count
            for index, identity in _among(frame, wanted):
                text = identity.decode("utf-8", "replace")
                place = Committed(topic, partition, stamp.base_offset + index, text, "committed")
                found.setdefault(identity, place)
    except FormatError as error:
        raise CannotTell(f"the log's answer is damaged: {error}") from error
    return offset, len(answer.body)


def _among(frame: Frame, wanted: frozenset[bytes]) -> list[tuple[int, bytes]]:
    """The records of a frame that are wanted, by their number in it."""
    producer = frame.envelope.producer
    prefix = id_prefix(producer).encode()
    columns = frame.columns()
    own = columns.id
    # A derived id is made only where it can be meant: most frames are another's.
    derived = any(identity.startswith(prefix) for identity in wanted)
    if own.all_null and not derived:
        return []
    named = [
        scoped_id(identity, columns.headers[index])
        or (derived_id(producer, index).encode() if derived else b"")
        for index, identity in enumerate(own)
    ]
    return [(index, identity) for index, identity in enumerate(named) if identity in wanted]


async def _ask(gateway: Gateway, path: str, query: dict[str, str]) -> Answer:
    try:
        return await gateway.ask("GET", path, query=query)
    except Unreachable as error:
        raise CannotTell(str(error)) from error
