"""The decision log: writes to `_audit` what was denied, and every subscribe, replay, admin, audit.

A publish that is allowed is not written here: its provenance is the record. Denials are limited
per principal and summarised (`denial_limit.py`). Records wait in a bounded queue and go out in
batches, each tried until the core has it, with the same sequence, so that it is there once.
`audit_failure: closed` lets an allowed decision take effect only after its record is committed;
`count` lets it through and counts what is lost. May import `log_format`; knows no HTTP server.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import orjson

from gatekeeper.audit.audit_batch import (
    AUDIT_RULE,
    AuditProducer,
    ProducerFileError,
    Signer,
    audit_frame,
    next_epoch,
)
from gatekeeper.audit.decisions import Ruling, id_text, new_decision_id, record_of
from gatekeeper.audit.denial_limit import DenialLimit
from gatekeeper.config import AuditConfig
from gatekeeper.core.upstream import CoreClient, OnBehalf
from gatekeeper.errors import AuditUnavailable, CoreUnavailable

log = logging.getLogger("sidegate.gatekeeper.decision_log")

BATCH_RECORDS_MAX: Final = 256
"""Records in one batch: about 128 KiB, so a full queue is written in forty appends."""
RECENT_MAX: Final = 2_000
"""Decisions kept in memory for the admin page."""
BACKOFF_S: Final = (0.1, 0.2, 0.5, 1.0)
"""Waits between tries; the last one repeats. The core is usually back within a second."""
PRODUCER_FILE: Final = "audit-producer.json"

Record = dict[str, object]
Outcome = Literal["written", "again", "new_epoch", "refused"]
_OUTCOMES: Final[dict[str, Outcome]] = {
    "unknown_topic": "again",
    "sequence_gap": "new_epoch",
    "fenced": "new_epoch",
    "over_quota": "again",
    "overloaded": "again",
    "disk_full": "again",
    "storage_failed": "again",
    "unavailable": "again",
}
"""What to do about each error that the core gives for our batch; any other is final."""


def outcome_of(result: dict[str, Any]) -> Outcome:
    """Decide what the core's result for an `_audit` batch means."""
    error = result.get("error")
    if error is None:
        return "written"
    return _OUTCOMES.get(str(error), "refused")


@dataclass(slots=True, eq=False)
class _Waiting:
    record: Record
    written: "asyncio.Future[bool] | None" = None


class DecisionLog:
    """A hosting component. `failing` says why records can't be written now, or is None.

    Not thread-safe; lives in one event loop.
    """

    name = "decision log"

    def __init__(
        self,
        core: CoreClient,
        signer: Callable[[], Signer],
        *,
        config: AuditConfig,
        failure: Literal["closed", "count"],
        gatekeeper_id: str,
        folder: Path,
        policy_hash: Callable[[], bytes],
    ) -> None:
        self._core = core
        self._signer = signer
        self._config = config
        self._closed_on_failure = failure == "closed"
        self._gatekeeper_id = gatekeeper_id
        self._folder = folder
        self._policy_hash = policy_hash
        self._limit = DenialLimit(config.denials_per_s, config.denials_burst)
        self._queue: deque[_Waiting] = deque()
        self._wake = asyncio.Event()
        self._idle = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._producer: AuditProducer | None = None
        self.recent: deque[Record] = deque(maxlen=RECENT_MAX)
        self.failing: str | None = None
        self.written = 0
        self.suppressed = 0
        self.lost = 0

    @property
    def waiting(self) -> int:
        """Records that are not yet in the log."""
        return len(self._queue)

    async def start(self) -> None:
        """Take the next epoch and begin to write."""
        self._folder.mkdir(parents=True, exist_ok=True)
        self._producer = await asyncio.to_thread(next_epoch, self._folder / PRODUCER_FILE)
        loop = asyncio.get_running_loop()
        self._tasks = [
            loop.create_task(self._write_all(), name="decision log writer"),
            loop.create_task(self._summarise(), name="decision log summaries"),
        ]

    async def drain(self) -> None:
        """Write what waits, together with the counts. The service bounds how long this may take."""
        self._queue_summaries()
        self._wake.set()
        if self._queue:
            self._idle.clear()
            await self._idle.wait()

    async def stop(self) -> None:
        """End the writer; what could not be written is named as lost."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._queue:
            self.lost += len(self._queue)
            log.error(
                "decisions were not written before the stop",
                extra={"fields": {"records": len(self._queue), "failing": self.failing}},
            )
            self._queue.clear()

    def note_denial(self, ruling: Ruling) -> None:
        """Write a denial, or count it where its principal has had too many."""
        record = record_of(ruling, self._gatekeeper_id)
        self.recent.append(record)
        self._note_limited(record, ruling.principal, ruling.action, ruling.reason, ruling.topic)

    def note_refusal(self, spiffe_id: str, thumbprint: bytes, reason: str) -> None:
        """Write that a caller could not prove who it is. Limited like a denial, per SPIFFE id (as
        claimed: it is not proven) or for all that claim none together."""
        now_us = time.time_ns() // 1000
        record: Record = {
            "kind": "authentication",
            "decision_id": id_text(new_decision_id(now_us)),
            "at_us": now_us,
            "allowed": False,
            "action": "authenticate",
            "principal": "",
            "reason": reason,
            "claimed_spiffe_id": spiffe_id,
            "thumbprint": thumbprint.hex(),
            "policy_hash": self._policy_hash().hex(),
            "gatekeeper": self._gatekeeper_id,
        }
        self.recent.append(record)
        self._note_limited(record, spiffe_id or "(unknown)", "authenticate", reason, "")

    async def note_allowed(self, ruling: Ruling) -> None:
        """Write an allowed decision; return when it may take effect, or raise AuditUnavailable."""
        await self.note(record_of(ruling, self._gatekeeper_id))

    async def note(self, record: Record) -> None:
        """Write one record; return when what it records may take effect."""
        if not self._closed_on_failure:
            self.recent.append(record)
            if len(self._queue) >= self._config.queue_max:
                self.lost += 1
                return
            self._enqueue(_Waiting(record))
            return
        stuck = self.failing is not None and len(self._queue) > 0
        if stuck or len(self._queue) >= self._config.queue_max:
            raise self._unavailable()
        self.recent.append(record)
        written: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._enqueue(_Waiting(record, written))
        try:
            async with asyncio.timeout(self._config.wait_max):
                committed = await asyncio.shield(written)
        except TimeoutError as error:
            raise self._unavailable() from error
        if not committed:
            raise self._unavailable()

    def _note_limited(
        self, record: Record, principal: str, action: str, reason: str, topic: str
    ) -> None:
        room = len(self._queue) < self._config.queue_max
        if room and self._limit.admit(principal, time.monotonic()):
            self._enqueue(_Waiting(record))
            return
        self.suppressed += 1
        self._limit.suppress(principal, action, reason, topic, time.time_ns() // 1000)

    def _unavailable(self) -> AuditUnavailable:
        return AuditUnavailable(
            "the decision log can't be written and this gatekeeper fails closed; try again", 1.0
        )

    def _enqueue(self, item: _Waiting) -> None:
        self._queue.append(item)
        self._wake.set()

    def _queue_summaries(self) -> None:
        for summary in self._limit.take_summaries():
            if len(self._queue) >= self._config.queue_max:
                self._limit.restore(summary)
            else:
                self._enqueue(_Waiting(summary.record(self._gatekeeper_id)))

    async def _summarise(self) -> None:
        while True:
            await asyncio.sleep(self._config.summary_interval)
            self._queue_summaries()

    async def _write_all(self) -> None:
        while True:
            if not self._queue:
                self._idle.set()
                self._wake.clear()
                await self._wake.wait()
                continue
            batch = [self._queue[i] for i in range(min(len(self._queue), BATCH_RECORDS_MAX))]
            await self._write(batch)
            for _ in batch:
                self._queue.popleft()

    async def _write(self, batch: Sequence[_Waiting]) -> None:
        records = [item.record for item in batch]
        frame: bytes | None = None
        tries = 0
        while True:
            producer = self._producer_or_fail()
            if frame is None:
                now_us = time.time_ns() // 1000
                frame = audit_frame(records, producer, self._signer(), self._policy_hash(), now_us)
            outcome, why = await self._send(frame)
            if outcome == "written":
                self._producer = producer.after(len(records))
                self._succeeded(batch)
                return
            if outcome == "refused":
                self._lose(batch, why)
                return
            self._failed(why)
            if outcome == "new_epoch":
                frame = None
                await self._raise_epoch()
            await asyncio.sleep(BACKOFF_S[min(tries, len(BACKOFF_S) - 1)])
            tries += 1

    def _producer_or_fail(self) -> AuditProducer:
        if self._producer is None:
            raise RuntimeError("the decision log was used before its start")
        return self._producer

    async def _send(self, frame: bytes) -> tuple[Outcome, str]:
        try:
            answer = await self._core.append([frame], self._behalf())
        except CoreUnavailable as error:
            return "again", str(error)
        if answer.status != 200:
            return "again", f"the core answered {answer.status}"
        try:
            result = orjson.loads(answer.body)["results"][0]
            return outcome_of(result), str(result.get("error", ""))
        except (ValueError, LookupError, AttributeError, TypeError):
            return "again", "the core's answer can't be read"

    async def _raise_epoch(self) -> None:
        try:
            self._producer = await asyncio.to_thread(next_epoch, self._folder / PRODUCER_FILE)
        except ProducerFileError as error:
            self._failed(str(error))

    def _behalf(self) -> OnBehalf:
        return OnBehalf(self._gatekeeper_id, AUDIT_RULE, "decision-log")

    def _succeeded(self, batch: Sequence[_Waiting]) -> None:
        self.written += len(batch)
        if self.failing is not None:
            log.info("the decision log is written again")
        self.failing = None
        for item in batch:
            if item.written is not None and not item.written.done():
                item.written.set_result(True)

    def _failed(self, why: str) -> None:
        if self.failing is None:
            log.error(
                "the decision log can't be written",
                extra={"fields": {"error": why, "waiting": len(self._queue)}},
            )
        self.failing = why

    def _lose(self, batch: Sequence[_Waiting], why: str) -> None:
        self._failed(why)
        self.lost += len(batch)
        for item in batch:
            if item.written is not None and not item.written.done():
                item.written.set_result(False)
