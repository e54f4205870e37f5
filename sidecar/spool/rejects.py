"""Messages that were accepted with a 202 and then refused for good: kept with the reason.

A file of JSON lines that people can read; each line holds a whole batch. It is small and rarely
written, so it is replaced whole when lines are dropped. Blocking; knows no network and no lane.
"""

import dataclasses
import os
from base64 import b64decode, b64encode
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from log_format.body import encode_body
from log_format.frame import decode_frame, encode_frame
from sidecar.delivery.record_id import derived_id
from sidecar.errors import DiskRefuses
from sidecar.publish.batch import Batch
from sidecar.publish.message import Message
from sidecar.publish.results import AppendResult
from sidecar.spool.whole_file import replace_file, sync_folder


class Reject(msgspec.Struct, frozen=True):
    """A refused batch: what it was, why it was refused, and its frame."""

    id: int
    at_us: int
    topic: str
    partition: int
    messages: int
    code: str
    detail: str
    decision_id: str | None
    reason: str | None
    frame_base64: str
    doubtful: bool = False
    """Whether an earlier try had no answer, so that the batch may be in the log all the same."""

    @property
    def size(self) -> int:
        """The frame's bytes."""
        return len(self.frame_base64) * 3 // 4 - self.frame_base64[-2:].count("=")

    def summary(self) -> dict[str, Any]:
        """Everything but the frame, of which only the size."""
        fields = msgspec.structs.asdict(self)
        del fields["frame_base64"]
        return {**fields, "bytes": self.size}

    def records(self) -> list[Message]:
        """The batch's messages as they were accepted.

        Each has an id: its own, or the one that it would be known by in the log. So it is published
        once, however often it is retried.
        """
        frame = decode_frame(b64decode(self.frame_base64))
        columns = frame.columns()
        producer = frame.envelope.producer
        return [
            Message(
                self.topic,
                columns.value[index] or b"",
                columns.event_us[index],
                columns.key[index],
                columns.id[index] or derived_id(producer, index).encode(),
                columns.content_type[index],
                columns.headers[index],
            )
            for index in range(columns.count)
        ]

    def only(self, rest: Sequence[Message]) -> "Reject":
        """The same reject with these of its messages alone."""
        producer = decode_frame(b64decode(self.frame_base64)).envelope.producer
        times = [message.event_us for message in rest]
        body = encode_body(
            times,
            [message.value for message in rest],
            ids=[message.id for message in rest],
            keys=[message.key for message in rest],
            content_types=[message.content_type for message in rest],
            headers=[message.headers for message in rest],
        )
        part = dataclasses.replace(
            producer,
            count=len(rest),
            first_event_us=times[0],
            greatest_event_us=max(times),
        )
        frame = b64encode(encode_frame(part, body)).decode()
        return msgspec.structs.replace(self, messages=len(rest), frame_base64=frame)


_FILE: Final = "rejects.jsonl"


class RejectFile:
    """The rejects of one sidecar, at most `bytes_max` of them. Not thread-safe."""

    def __init__(self, folder: Path, bytes_max: int) -> None:
        self._path = folder / _FILE
        self._bytes_max = bytes_max
        self._size = 0
        self._next_id = 0
        self.count = 0
        self.messages = 0
        self.unkept = 0

    def open(self) -> None:
        """Read what is there. A torn last line is cut: its batch is still in the spool."""
        if self._path.exists():
            whole = self._path.read_bytes().rfind(b"\n") + 1
            if whole < self._path.stat().st_size:
                # Unlike a new file, this works on a full disk too.
                os.truncate(self._path, whole)
            self._size = whole
        rejects = self.list()
        self.count = len(rejects)
        self.messages = sum(reject.messages for reject in rejects)
        self._next_id = max((reject.id for reject in rejects), default=-1) + 1

    def add(self, batch: Batch, result: AppendResult, at_us: int) -> bool:
        """Keep a refused batch, synced. False where the file is full and it is gone."""
        reject = Reject(
            self._next_id,
            at_us,
            batch.producer.topic,
            batch.producer.partition,
            batch.producer.count,
            result.code,
            result.detail,
            result.decision_id,
            result.reason,
            b64encode(batch.frame).decode(),
            batch.doubtful,
        )
        line = msgspec.json.encode(reject) + b"\n"
        if self._size + len(line) > self._bytes_max:
            self.unkept += batch.producer.count
            return False
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        fresh = not self._path.exists()
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            view = memoryview(line)
            while view:
                view = view[os.write(descriptor, view) :]
            os.fsync(descriptor)
        except OSError:
            # Half a line would spoil the next one, which is appended to it.
            os.ftruncate(descriptor, self._size)
            raise
        finally:
            os.close(descriptor)
        if fresh:
            sync_folder(self._path.parent)
        self._next_id += 1
        self._size += len(line)
        self.count += 1
        self.messages += reject.messages
        return True

    def list(self) -> list[Reject]:
        """All rejects that can be read, oldest first."""
        if not self._path.exists():
            return []
        rejects = []
        for line in self._path.read_bytes().splitlines():
            try:
                rejects.append(msgspec.json.decode(line, type=Reject))
            except msgspec.MsgspecError:
                # Torn by a crash, or damaged: that costs no other line.
                continue
        return rejects

    def find(self, number: int) -> Reject | None:
        """The reject with this id."""
        return next((each for each in self.list() if each.id == number), None)

    def keep_only(self, reject: Reject, rest: Sequence[Message]) -> None:
        """Messages of a reject were published: keep only the others, of which there are some."""
        less = reject.only(rest)
        rows = [less if row.id == reject.id else row for row in self.list()]
        self._replace(b"".join(msgspec.json.encode(row) + b"\n" for row in rows))
        self.messages = sum(row.messages for row in rows)

    def drop(self, ids: Iterable[int]) -> int:
        """Forget these; how many there were."""
        gone = set(ids)
        before = self.list()
        after = [reject for reject in before if reject.id not in gone]
        if len(after) < len(before):
            self._replace(b"".join(msgspec.json.encode(reject) + b"\n" for reject in after))
            self.count = len(after)
            self.messages = sum(reject.messages for reject in after)
        return len(before) - len(after)

    def _replace(self, lines: bytes) -> None:
        try:
            replace_file(self._path, lines)
        except OSError as error:
            raise DiskRefuses(f"{self._path} was not written: {error}; it is as it was") from error
        self._size = len(lines)
