"""A log's batches and records in readable form, straight from its files."""

import base64
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson

from log_format.body import Columns
from log_format.envelope import Envelope
from log_format.errors import FormatError
from log_format.frame import Frame, decode_frame
from log_format.layout import SEGMENT_HEAD_BYTES
from sidegate.checker.mapped import map_file

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Filter:
    """Which batches to show; None means all."""

    topic: str | None = None
    partition: int | None = None
    first_offset: int | None = None
    last_offset: int | None = None
    principal: str | None = None
    since_us: int | None = None
    until_us: int | None = None

    def takes(self, envelope: Envelope) -> bool:
        """Whether some record of this batch may be wanted."""
        producer, stamp = envelope.producer, envelope.stamp
        if stamp is None:
            return True
        last = stamp.base_offset + producer.count - 1
        principal = envelope.provenance.principal if envelope.provenance else ""
        return (
            self.topic in (None, producer.topic)
            and self.partition in (None, producer.partition)
            and self.principal in (None, principal)
            and (self.first_offset is None or last >= self.first_offset)
            and (self.last_offset is None or stamp.base_offset <= self.last_offset)
            and (self.since_us is None or stamp.append_us >= self.since_us)
            and (self.until_us is None or stamp.append_us < self.until_us)
        )


def dump_segment(path: Path, wanted: Filter, *, records: bool) -> Iterator[dict[str, Any]]:
    """Each wanted batch of a segment, and its records if asked; damage ends it with an entry."""
    data = map_file(path)
    position = SEGMENT_HEAD_BYTES
    while position < len(data):
        try:
            frame = decode_frame(data, position)
        except FormatError as error:
            yield {"damage": str(error), "file": path.name, "position": position}
            return
        if wanted.takes(frame.envelope):
            batch = _batch(frame.envelope, path.name, position)
            if records and frame.envelope.has_body:
                try:
                    frame.check_hash()
                    batch["records"] = list(_records(frame.envelope, frame.columns(), wanted))
                except FormatError as error:
                    batch["damage"] = str(error)
            yield batch
        position += frame.envelope.frame_len


def _batch(envelope: Envelope, file: str, position: int) -> dict[str, Any]:
    producer, provenance, stamp = envelope.producer, envelope.provenance, envelope.stamp
    shown: dict[str, Any] = {"topic": producer.topic, "partition": producer.partition}
    if stamp is not None:
        shown |= {
            "leaf": stamp.leaf,
            "first_offset": stamp.base_offset,
            "appended": time_text(stamp.append_us),
        }
    shown |= {
        "count": producer.count,
        "bytes": envelope.body_len,
        "codec": envelope.codec.name.lower(),
        "body": "kept" if envelope.has_body else "removed by retention",
        "producer": f"{producer.producer_id:x}-{producer.epoch}-{producer.first_sequence}",
    }
    if provenance is not None:
        shown |= {
            "principal": provenance.principal,
            "issuer": provenance.issuer,
            "client_id": provenance.client_id,
            "thumbprint": provenance.thumbprint.hex(),
            "token_id": provenance.token_id,
            "decision_id": provenance.decision_id.hex(),
            "rule": provenance.rule,
            "policy_hash": provenance.policy_hash.hex(),
            "gatekeeper": provenance.gatekeeper_id,
        }
    return shown | {"file": file, "position": position}


def record_of(envelope: Envelope, body: bytes, offset: int) -> dict[str, Any] | None:
    """One record of a body that is proven to be this envelope's; None where it can't be read."""
    with suppress(FormatError):
        wanted = Filter(first_offset=offset, last_offset=offset)
        # What was proven holds its content also where retention has marked the body as removed.
        whole = replace(envelope, has_body=True)
        return next(_records(envelope, Frame(whole, body).columns(), wanted), None)
    return None


def _records(envelope: Envelope, columns: Columns, wanted: Filter) -> Iterator[dict[str, Any]]:
    base = envelope.stamp.base_offset if envelope.stamp else 0
    for index in range(columns.count):
        offset = base + index
        if wanted.first_offset is not None and offset < wanted.first_offset:
            continue
        if wanted.last_offset is not None and offset > wanted.last_offset:
            continue
        record: dict[str, Any] = {"offset": offset, "time": time_text(columns.event_us[index])}
        for name in ("id", "key", "content_type", "headers", "value"):
            value = getattr(columns, name)[index]
            if value is not None:
                record[name] = _readable(value)
        yield record


def _readable(value: bytes) -> Any:
    """JSON as it is, other text as text, and the rest in base64."""
    with suppress(orjson.JSONDecodeError):
        return orjson.loads(value)
    with suppress(UnicodeDecodeError):
        return value.decode("utf-8")
    return {"base64": base64.b64encode(value).decode("ascii")}


def time_text(time_us: int) -> str:
    """RFC 3339 in UTC; a number where no calendar reaches."""
    try:
        return (_EPOCH + timedelta(microseconds=time_us)).isoformat().replace("+00:00", "Z")
    except OverflowError:
        return f"{time_us} us"
