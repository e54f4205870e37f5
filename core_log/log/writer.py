"""One turn of the writer: take what waits, commit it as a group, answer, see to what is due.

Imports the journal and what it needs around it. Has no thread of its own; `Log` runs it.
"""

import logging
from collections.abc import Callable, Sequence
from typing import TypeVar

from core_log.clock import Clock
from core_log.log.group import Group, Outcome
from core_log.log.inbox import Inbox, Submission
from core_log.log.journal import Journal
from core_log.log.keeper import Keeper, checkpoint_due
from core_log.log.log_errors import DiskFull, LogFailed
from core_log.log.options import LogOptions
from core_log.log.results import Appended, Committed, Refused
from core_log.log.space import FULL_ERRNOS, Space

OnCommit = Callable[[Sequence[Committed]], None]

T = TypeVar("T")

_log = logging.getLogger("sidegate.core.log")


class Writer:
    """The one that appends.

    Invariant: whatever `turn` has taken from the inbox is answered exactly once, by `turn` or, if
    that raised, by `strand`. After an error of `turn` only `strand` may be called.
    """

    def __init__(
        self,
        journal: Journal,
        inbox: Inbox,
        keeper: Keeper,
        space: Space,
        options: LogOptions,
        clock: Clock,
        on_commit: OnCommit,
    ) -> None:
        self._journal = journal
        self._inbox = inbox
        self._keeper = keeper
        self._space = space
        self._options = options
        self._clock = clock
        self._on_commit = on_commit
        self._group_bytes_max = min(options.group_bytes_max, options.segment_bytes)
        self._taken: list[Submission] = []
        now = clock.monotonic()
        self._synced_at = now
        self._appended_at = now
        self._checkpoint_at = now
        self.roll_wanted = False
        self.groups = 0
        self.last_sync_s = 0.0

    def turn(self) -> None:
        """Commit one group and do what is due. An OSError from here is the end of this log."""
        if self._keeper.error is not None:
            raise self._keeper.error
        if self.roll_wanted:
            self.roll_wanted = False
            self._roll_if_room()
        self._taken = self._inbox.take(self._group_bytes_max)
        if self._taken:
            self._commit()
        self._see_to_what_is_due()

    def _roll_if_room(self) -> None:
        try:
            self._journal.roll()
        except OSError as error:
            if error.errno not in FULL_ERRNOS:
                raise
            self._space.found_full()

    def _commit(self) -> None:
        group = self._journal.group()
        outcomes = [group.add_all(submission.frames) for submission in self._taken]
        if group.frames:
            try:
                self._journal.write(group)
            except OSError as error:
                if error.errno not in FULL_ERRNOS:
                    raise
                self._journal.cut_back()
                self._space.found_full()
                self._answer([self._without_room(each) for each in outcomes])
                return
            if self._options.durability == "fsync":
                self._sync(group)
            self._journal.apply(group)
            self.groups += 1
            self._appended_at = self._clock.monotonic()
            self._space.took(group.bytes)
            _tell(self._on_commit, group.committed)
        self._answer(outcomes)

    def _sync(self, group: Group | None = None) -> None:
        began = self._clock.monotonic()
        self._journal.sync(group)
        self._synced_at = self._clock.monotonic()
        self.last_sync_s = self._synced_at - began

    def _without_room(self, outcomes: Sequence[Outcome]) -> list[Outcome]:
        """What a group is told whose write found no room.

        Repeats of what the log holds already are answered as such: they need no room.
        """
        leaves = self._journal.next_leaf
        return [
            Refused(
                outcome.topic,
                outcome.partition,
                DiskFull.code,
                self._space.refusal(),
                retryable=True,
            )
            if isinstance(outcome, Appended) and outcome.leaf >= leaves
            else outcome
            for outcome in outcomes
        ]

    def _answer(self, outcomes: Sequence[Sequence[Outcome]]) -> None:
        taken, self._taken = self._taken, []
        self._inbox.answered(taken)
        for submission, each in zip(taken, outcomes, strict=True):
            _tell(submission.done, each)

    def strand(self, error: Exception) -> None:
        """Answer everything that was accepted: nobody knows what became of it."""
        detail = (
            f"the disk failed under the log ({error}); whether this batch was appended is known "
            "after a restart: send it again with the same sequence"
        )
        self._taken += self._inbox.take(self._inbox.in_flight)
        self._answer(
            [
                [
                    Refused(
                        frame.envelope.producer.topic,
                        frame.envelope.producer.partition,
                        LogFailed.code,
                        detail,
                        retryable=True,
                    )
                    for frame in submission.frames
                ]
                for submission in self._taken
            ]
        )

    def _see_to_what_is_due(self) -> None:
        journal, options, now = self._journal, self._options, self._clock.monotonic()
        if self._sync_waits() and now - self._synced_at >= options.sync_interval_s:
            self._sync()
        if self._checkpoint_waits() and checkpoint_due(
            options,
            unsaved_bytes=journal.unsaved_bytes,
            since_last_s=now - self._checkpoint_at,
            idle_s=now - self._appended_at,
        ):
            self._checkpoint_at = now
            self._keeper.offer(journal.snapshot())

    def _sync_waits(self) -> bool:
        journal = self._journal
        return self._options.durability == "interval" and journal.durable_leaf < journal.next_leaf

    def _checkpoint_waits(self) -> bool:
        journal = self._journal
        return journal.checkpoint_leaf != journal.next_leaf and not self._keeper.busy

    def pause_s(self) -> float | None:
        """How long nothing is due if nothing comes; None for until something does."""
        now = self._clock.monotonic()
        due = []
        if self._sync_waits():
            due.append(self._synced_at + self._options.sync_interval_s)
        if self._checkpoint_waits():
            silent_since = max(self._appended_at, self._checkpoint_at)
            due.append(silent_since + self._options.checkpoint_idle_s)
        return max(min(due) - now, 0.0) if due else None


def _tell(hear: Callable[[Sequence[T]], None], news: Sequence[T]) -> None:
    """Call back. What a caller's code raises is its own affair and must not stop the log."""
    try:
        hear(news)
    except Exception:  # noqa: BLE001 - whatever it is, it is logged and the next caller is told
        _log.exception("a callback of the log failed")
