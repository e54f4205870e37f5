"""What can be wrong with a log's bytes, as a value that travels from a task to the report."""

from dataclasses import dataclass

from log_format.envelope import Envelope


@dataclass(frozen=True, slots=True)
class Damage:
    """Bytes that are no sound batch: which file, where, what, and whose if that can be told.

    `code` is stable; `text` says it in words. `envelope` is set where only the body is wrong.
    """

    file: str
    position: int
    length: int
    code: str
    text: str
    envelope: Envelope | None = None

    def __str__(self) -> str:
        place = f"{self.file} at byte {self.position}"
        if self.envelope is not None and self.envelope.stamp is not None:
            producer, base = self.envelope.producer, self.envelope.stamp.base_offset
            place += (
                f" ({producer.topic}/{producer.partition} offsets {base} to"
                f" {base + producer.count - 1})"
            )
        return f"{place}: {self.code}: {self.text}"


class DamagedLog(Exception):
    """A read that may not skip damage has met some."""

    def __init__(self, damage: Damage) -> None:
        super().__init__(
            f"{damage}. Read with option damage=skip to leave it out, and with rows=batches to list"
            " all damage; `sidegate audit report` tells what it means."
        )
