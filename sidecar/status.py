"""What `/status` says, and the metrics that are read from the same numbers."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import version

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from sidecar.counters import Counters
from sidecar.publish.publisher import Publisher
from sidecar.push.push_status import push_metrics, push_status
from sidecar.push.pushes import Pushes
from sidecar.spool.outbox import Outbox
from sidecar.spool.rejects import RejectFile
from sidecar.uplink.credentials import CredentialSource
from sidecar.uplink.uplink import Uplink


@dataclass(frozen=True, slots=True)
class Status:
    """Reads the numbers of the parts; keeps none itself."""

    uplink: Uplink
    publisher: Publisher
    outbox: Outbox
    rejects: RejectFile
    credentials: CredentialSource
    counters: Counters
    gatekeeper: Callable[[], str]
    streams: Callable[[], int]
    pushes: Pushes

    @property
    def spool_age_s(self) -> float:
        """How long the oldest message has waited on disk alone."""
        oldest = self.publisher.oldest_stored_s
        return 0.0 if oldest is None else max(0.0, time.time() - oldest)

    def document(self) -> dict[str, object]:
        """Everything that an operator asks first."""
        counters, outbox, rejects = self.counters, self.outbox, self.rejects
        return {
            "service": "sidecar",
            "version": version("sidegate"),
            **self.uplink.state.document(),
            "gatekeeper": self.gatekeeper(),
            "token": "valid" if self.credentials.current else "none",
            "token_error": self.credentials.error,
            "queues": {
                "waiting_messages": self.publisher.waiting_messages,
                "unsettled_batches": self.publisher.unsettled_batches,
                "partitions": len(self.publisher.lanes),
            },
            "spool": {
                "batches": outbox.records,
                "messages": outbox.messages,
                "bytes": outbox.bytes_used,
                "bytes_max": outbox.bytes_max,
                "oldest_age_s": round(self.spool_age_s, 3),
                "takes_messages": outbox.has_room(0),
                "error": outbox.problem,
                "damaged_bytes": outbox.damaged_bytes,
                "quarantined_batches": outbox.quarantined,
                "lost_batches": outbox.lost_records,
            },
            "rejects": {
                "batches": rejects.count,
                "messages": rejects.messages,
                "not_kept": rejects.unkept,
            },
            "committed": {
                "messages": counters.committed_messages,
                "batches": counters.committed_batches,
                "bytes": counters.committed_bytes,
            },
            "denied": counters.denied_messages,
            "last_denial": counters.last_denial,
            "in_doubt": counters.in_doubt,
            "dropped": counters.dropped_messages,
            "delivered": counters.delivered_messages,
            "redelivered": counters.redelivered_messages,
            "filtered": counters.filtered_messages,
            "filter_errors": counters.filter_errors,
            "streams": self.streams(),
            "pushes": push_status(self.pushes),
        }


class StatusCollector(Collector):
    """The same numbers for Prometheus, read when it asks."""

    def __init__(self, status: Status) -> None:
        self._status = status

    def collect(self) -> Iterator[Metric]:
        """Gauges and counters of the moment."""
        status = self._status
        outbox, publisher, counters = status.outbox, status.publisher, status.counters
        gauges: tuple[tuple[str, str, float], ...] = (
            ("uplink_connected", "1 while a gatekeeper answers.", status.uplink.connected),
            ("waiting_messages", "Messages not yet in a batch.", publisher.waiting_messages),
            ("unsettled_batches", "Batches under way or in doubt.", publisher.unsettled_batches),
            ("streams", "Open subscriptions.", status.streams()),
            ("spool_batches", "Batches on disk that are not settled.", outbox.records),
            ("spool_messages", "Messages in those batches.", outbox.messages),
            ("spool_bytes", "Bytes of the spool on disk.", outbox.bytes_used),
            ("spool_limit_bytes", "Bytes that the spool may take.", outbox.bytes_max),
            ("spool_oldest_age_seconds", "Age of the oldest on disk alone.", status.spool_age_s),
            ("spool_quarantined_batches", "Spooled batches set aside.", outbox.quarantined),
            ("rejects_batches", "Refused batches that were kept.", status.rejects.count),
        )
        for name, text, value in gauges:
            yield GaugeMetricFamily(f"sidegate_sidecar_{name}", text, value=float(value))
        counts = (
            ("committed_messages", "Messages in the log.", counters.committed_messages),
            ("committed_batches", "Batches in the log.", counters.committed_batches),
            ("committed_bytes", "Bytes of those batches.", counters.committed_bytes),
            ("denied_messages", "Messages that policy refused.", counters.denied_messages),
            ("rejected_messages", "Refused after a 202.", counters.rejected_messages),
            ("dropped_messages", "Dropped by overflow.", counters.dropped_messages),
            ("in_doubt_answers", "Publishes answered with 504.", counters.in_doubt),
            ("spool_refusals", "Times that the spool's disk refused.", counters.spool_refusals),
            ("spool_lost_batches", "Batches that the disk has lost.", outbox.lost_records),
            ("delivered_messages", "Messages given out.", counters.delivered_messages),
            (
                "redelivered_messages",
                "Messages given out that had been given out before.",
                counters.redelivered_messages,
            ),
            (
                "filtered_messages",
                "Messages that a filter held back.",
                counters.filtered_messages,
            ),
            (
                "filter_errors",
                "Messages that a filter could not judge, and held back.",
                counters.filter_errors,
            ),
        )
        for name, text, value in counts:
            yield CounterMetricFamily(f"sidegate_sidecar_{name}", text, value=float(value))
        yield from push_metrics(status.pushes)
