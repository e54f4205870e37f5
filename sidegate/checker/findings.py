"""What a check can find, as values that can be printed, counted and sent between processes."""

from dataclasses import asdict, dataclass, field


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong. `kind` is stable; `text` says what and where in words."""

    kind: str
    file: str
    position: int | None
    text: str
    topic: str | None = None
    partition: int | None = None
    first_offset: int | None = None
    last_offset: int | None = None

    def as_dict(self) -> dict[str, object]:
        """For JSON: only what is known."""
        return {key: value for key, value in asdict(self).items() if value is not None}

    def __str__(self) -> str:
        where = self.file if self.position is None else f"{self.file} at byte {self.position}"
        return f"{self.kind}: {where}: {self.text}"


@dataclass(slots=True)
class Run:
    """Offsets of one topic and partition that follow each other without a gap."""

    first_offset: int
    next_offset: int
    file: str
    position: int


@dataclass(slots=True)
class SegmentSummary:
    """All that the check of one segment tells about the whole log."""

    file: str
    size: int
    log_id: bytes | None = None
    first_leaf: int | None = None
    next_leaf: int | None = None
    batches: int = 0
    records: int = 0
    bodies_removed: int = 0
    torn_bytes: int = 0
    durable_leaf: int = 0
    senders_proven: int = 0
    leaves: dict[int, bytes] = field(default_factory=dict)
    """Hashes of leaves that follow each other, joined, by the first one's number."""
    runs: dict[tuple[str, int], list[Run]] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)


def offset_gap(topic: str, partition: int, expected: int, run: Run) -> Finding:
    """Offsets that should lie between `expected` and the begin of `run`."""
    if run.first_offset > expected:
        text = f"{topic}/{partition}: offsets {expected} to {run.first_offset - 1} are missing"
        ends = (expected, run.first_offset - 1)
    else:
        text = (
            f"{topic}/{partition}: offset {run.first_offset} comes again;"
            f" {expected} should follow here"
        )
        ends = (run.first_offset, expected - 1)
    return Finding("offset_gap", run.file, run.position, text, topic, partition, ends[0], ends[1])
