"""The control log: control state as records in a small log of its own, with snapshots.

A thin shell over `control_state`, which decides, and the embedded engine, which stores. Records
lie in one topic, snapshots in another of the same log; a snapshot is a run of records that ends
with a marker, so that one cut short by a crash is recognised and its predecessor is used.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import orjson

from core_log.clock import Clock, SystemClock
from core_log.control.control_state import (
    EMPTY,
    NOBODY,
    Cause,
    ControlState,
    Fact,
    Record,
    apply,
    decode_record,
    encode_record,
    snapshot,
)
from core_log.control.records import append_records, chunks, read_frames, record_frame
from core_log.log.embedded import EmbeddedEngine
from core_log.log.files import Files
from core_log.log.log_errors import Damaged, LogError
from core_log.log.options import MIB, LogOptions, Retention
from log_format.frame import Frame

log = logging.getLogger("sidegate.core")

RECORDS_TOPIC: Final = "_control"
SNAPSHOTS_TOPIC: Final = "_control.snapshots"

HISTORY_BYTES: Final = 256 * MIB
"""Records kept behind the snapshot, for whoever asks who changed what: years of changes."""

_END: Final = b"end"

OPTIONS: Final = LogOptions(
    tree=False,
    segment_bytes=16 * MIB,
    hot_tail_bytes=4 * MIB,
    # Smaller than the main log's, so that topics can be deleted on a disk that is full.
    disk_reserve_bytes=16 * MIB,
    checkpoint_bytes=4 * MIB,
    require_provenance=False,
    check_sequences=False,
)


@dataclass(frozen=True, slots=True)
class Snapshots:
    """When a snapshot is written, and how."""

    records: int = 1000
    """Records after which one is due: an open replays at most these, in milliseconds."""
    frame_bytes: int = MIB
    """A snapshot's frames are about this long, far below the format's limit on a body."""


class ControlDamaged(Exception):
    """The control log can't be read and no snapshot stands in for what is lost."""


@dataclass(frozen=True, slots=True)
class _Loaded:
    state: ControlState
    next_offset: int
    first_offset: int


Decide = Callable[[ControlState], Sequence[Fact]]
"""From the state as it is to the facts to record; raises a domain error to refuse."""


class ControlLog:
    """The control state, and the only way to change it.

    Invariant: `state` holds exactly what is durable. Changes are made one after the other.
    Belongs to one event loop.
    """

    def __init__(
        self, engine: EmbeddedEngine, clock: Clock, loaded: _Loaded, snapshots: Snapshots
    ) -> None:
        self._engine = engine
        self._snapshots = snapshots
        self._clock = clock
        self._state = loaded.state
        self._snapshot_first = loaded.first_offset
        self._since_snapshot = engine.end_offset(RECORDS_TOPIC, 0) - loaded.next_offset
        self._lock = asyncio.Lock()
        self._changed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @classmethod
    async def open(
        cls,
        directory: Path,
        *,
        on_failure: Callable[[Exception], None],
        options: LogOptions = OPTIONS,
        snapshots: Snapshots | None = None,
        clock: Clock | None = None,
        files: Files | None = None,
    ) -> "ControlLog":
        """Open or make the control log: the newest whole snapshot, and the records after it."""
        clock = clock or SystemClock()
        engine = await EmbeddedEngine.open(
            directory, options, on_failure=on_failure, clock=clock, files=files
        )
        try:
            loaded = await _load_snapshot(engine)
            state = await _replay(engine, loaded)
        except BaseException:
            await engine.close()
            raise
        loaded = _Loaded(state, loaded.next_offset, loaded.first_offset)
        return cls(engine, clock, loaded, snapshots or Snapshots())

    @property
    def state(self) -> ControlState:
        """What is known now."""
        return self._state

    async def change(self, decide: Decide, cause: Cause = NOBODY) -> ControlState:
        """Decide on the newest state, record the facts, and return the state after them.

        Goes on to its end even where the caller is cancelled: a fact that is on its way to the
        disk can't be called back.
        """
        return await asyncio.shield(asyncio.ensure_future(self._change(decide, cause)))

    async def wait_for(self, condition: Callable[[ControlState], bool]) -> None:
        """Return once `condition` holds."""
        while not condition(self._state):
            await asyncio.shield(self._changed)

    async def clean(self) -> None:
        """Let go of what snapshots have replaced."""
        await self._engine.clean(
            {
                RECORDS_TOPIC: Retention(bytes=HISTORY_BYTES),
                SNAPSHOTS_TOPIC: Retention(drop_below={0: self._snapshot_first}),
            }
        )

    async def close(self) -> None:
        """Wait for the change that is being made, and close the files."""
        async with self._lock:
            await self._engine.close()

    async def _change(self, decide: Decide, cause: Cause) -> ControlState:
        async with self._lock:
            facts = decide(self._state)
            if not facts:
                return self._state
            now_us = self._clock.now_us()
            records = [encode_record(Record(fact, now_us, cause)) for fact in facts]
            await append_records(self._engine, record_frame(RECORDS_TOPIC, records, now_us))
            self._state = apply(self._state, facts)
            changed, self._changed = self._changed, self._changed.get_loop().create_future()
            changed.set_result(None)
            self._since_snapshot += len(facts)
            if self._since_snapshot >= self._snapshots.records:
                await self._snapshot()
            return self._state

    async def _snapshot(self) -> None:
        """Write a snapshot. The change that brought it about is durable whatever happens here."""
        try:
            await self._write_snapshot()
        except LogError as error:
            # The next change tries again; until then an open replays a few records more.
            fields = {"detail": str(error), "records": self._since_snapshot}
            log.warning("snapshot was not written", extra={"fields": fields})

    async def _write_snapshot(self) -> None:
        first = self._engine.end_offset(SNAPSHOTS_TOPIC, 0)
        now_us = self._clock.now_us()
        key = b"%d" % first
        facts = list(snapshot(self._state, now_us=now_us))
        records = (encode_record(Record(fact, now_us)) for fact in facts)
        frames = [
            record_frame(SNAPSHOTS_TOPIC, chunk, now_us, key=key)
            for chunk in chunks(records, self._snapshots.frame_bytes)
        ]
        end = orjson.dumps({"next_offset": self._engine.end_offset(RECORDS_TOPIC, 0)})
        frames.append(record_frame(SNAPSHOTS_TOPIC, [end], now_us, key=key, identity=_END))
        await append_records(self._engine, *frames)
        # What a restart would know: without what the snapshot has let go.
        self._state = apply(EMPTY, facts)
        self._snapshot_first = first
        self._since_snapshot = 0


async def _load_snapshot(engine: EmbeddedEngine) -> _Loaded:
    """The newest whole snapshot; an empty state where there is none that can be read."""
    end = engine.end_offset(SNAPSHOTS_TOPIC, 0)
    try:
        while end > engine.start_offset(SNAPSHOTS_TOPIC, 0):
            columns = (await read_frames(engine, SNAPSHOTS_TOPIC, end - 1, end))[-1].columns()
            first = int(columns.key[columns.count - 1] or b"")
            if columns.id[columns.count - 1] == _END:
                marker = orjson.loads(columns.value[columns.count - 1] or b"")
                frames = await read_frames(engine, SNAPSHOTS_TOPIC, first, end - 1)
                return _Loaded(apply(EMPTY, _facts(frames)), int(marker["next_offset"]), first)
            end = first
    except Damaged as error:
        log.error("snapshot can't be read", extra={"fields": {"detail": str(error)}})  # noqa: TRY400
    return _Loaded(EMPTY, 0, 0)


async def _replay(engine: EmbeddedEngine, loaded: _Loaded) -> ControlState:
    """The state of the snapshot and of all records after it."""
    start = engine.start_offset(RECORDS_TOPIC, 0)
    if start > loaded.next_offset:
        raise ControlDamaged(
            f"the control log begins at record {start} but no snapshot reaches further than "
            f"record {loaded.next_offset}; restore the folder `control` from a backup"
        )
    end = engine.end_offset(RECORDS_TOPIC, 0)
    try:
        frames = await read_frames(engine, RECORDS_TOPIC, loaded.next_offset, end)
    except Damaged as error:
        raise ControlDamaged(
            f"{error}; without these records topics and revocations would be forgotten: "
            "restore the folder `control` from a backup"
        ) from error
    return apply(loaded.state, _facts(frames))


def _facts(frames: Iterable[Frame]) -> Iterator[Fact]:
    for frame in frames:
        for value in frame.columns().value:
            yield decode_record(value or b"").fact
