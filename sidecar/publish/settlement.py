"""What answers mean for their batches: which are settled, which stay, where a gap begins.

A pure decision over the requests of a lane that were under way together; the lane does what it
says. The rules that keep a retry from doubling or reordering anything are all here.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from sidecar.publish.batch import Batch
from sidecar.publish.flight import Flight
from sidecar.publish.results import IN_THE_LOG, AppendResult, Verdict

RETRY_AFTER_DEFAULT_S: Final = 1.0
"""The wait after "not now" where the answer names none: the span of most quotas."""
RETRY_AFTER_S_MAX: Final = 60.0
"""The longest wait, whatever an answer names: asking again once a minute costs nothing."""
LATE_S_MAX: Final = 30.0
"""How long a request whose connection was lost may still reach the log: as long as a gatekeeper
waits for the core. Until then "a gap" is not yet "not in the log"."""


@dataclass(frozen=True, slots=True)
class Settled:
    """A batch whose fate is known."""

    batch: Batch
    result: AppendResult


@dataclass(slots=True)
class Settlement:
    """The decision. `rest` stays in the queue, in order; from `mend_from` on it needs new numbers.

    `retry_at` is when to send again, where the answers say so; `fenced` where the producer's id is
    used by somebody else.
    """

    settled: list[Settled] = field(default_factory=list)
    rest: list[Batch] = field(default_factory=list)
    mend_from: int | None = None
    retry_at: float | None = None
    fenced: bool = False
    sure_gap: bool = False
    unsure: bool = False

    @property
    def progressed(self) -> bool:
        """Whether anything has reached the log."""
        return any(each.result.verdict in IN_THE_LOG for each in self.settled)

    @property
    def ends_refused(self) -> bool:
        """Whether nothing stays and the last batch was refused: its epoch is of no more use."""
        last = self.settled[-1] if self.settled and not self.rest else None
        return last is not None and last.result.verdict not in IN_THE_LOG

    def mend_here(self) -> None:
        """What follows needs new numbers, unless something before it does already."""
        if self.mend_from is None:
            self.mend_from = len(self.rest)


def settle_flights(flights: Sequence[Flight], now: float, lost_at: float) -> Settlement:
    """Decide over answered requests, oldest first. `lost_at`: when an answer was lost last."""
    decision = Settlement()
    for flight in flights:
        for batch, answer in zip(flight.batches, flight.answers or (), strict=True):
            result = answer.for_sequence(batch.producer.first_sequence)
            if is_final(batch, result):
                decision.settled.append(Settled(batch, result))
                if result.verdict not in IN_THE_LOG and not batch.doubtful:
                    decision.sure_gap = True
                    decision.mend_here()
            else:
                _hold(decision, batch, result, now, lost_at, alone=flight.alone)
                decision.rest.append(batch)
    return decision


def is_final(batch: Batch, result: AppendResult) -> bool:
    """Whether this result ends the batch's life here."""
    if result.verdict is Verdict.REFUSED or result.verdict in IN_THE_LOG:
        return True
    if result.verdict not in (Verdict.OVER_QUOTA, Verdict.NOT_NOW) or batch.doubtful:
        return False
    # Taken back only while every app still waits to be told so: to those that gave up, or never
    # waited, the sidecar has promised to go on trying.
    return bool(batch.entries) and all(
        entry.reply is not None and not entry.keep and not entry.ack.detached
        for entry in batch.entries
    )


def _hold(
    decision: Settlement,
    batch: Batch,
    result: AppendResult,
    now: float,
    lost_at: float,
    *,
    alone: bool,
) -> None:
    """The batch stays: note what is known of it."""
    if result.verdict is Verdict.UNSENT:
        decision.unsure = True
    elif result.verdict is Verdict.DOUBT:
        # Behind a batch that surely is not in the log, it would have found the gap.
        batch.doubtful = batch.doubtful or not decision.sure_gap
        decision.unsure = decision.unsure or not decision.sure_gap
    elif result.verdict is Verdict.FENCED:
        decision.fenced = True
        decision.mend_here()
    elif result.verdict is Verdict.GAP:
        if not alone:
            # It may have overtaken the request before it: sent again by itself, it will tell.
            decision.unsure = True
        elif batch.doubtful and now < lost_at + LATE_S_MAX:
            # An earlier try may still arrive, with what came before it, and fill the gap.
            decision.retry_at = lost_at + LATE_S_MAX
            decision.unsure = True
        elif not decision.unsure:
            decision.mend_here()
    else:
        wait_s = min(result.retry_after_s or RETRY_AFTER_DEFAULT_S, RETRY_AFTER_S_MAX)
        decision.retry_at = now + wait_s
        decision.unsure = True
