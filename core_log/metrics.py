"""The core's numbers for Prometheus. Labels come from fixed sets: no topic, no principal.

What is counted as it happens has a counter here; what the log knows anyway is asked for when a
scraper comes.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from core_log.api.intake import CODES
from core_log.api.stream import StreamTotals
from core_log.log.engine import Outcome
from core_log.log.results import Committed, LogStatus, Refused
from hosting.metrics import SECONDS_BUCKETS
from log_format.frame import Frame

GROUP_BUCKETS: Final = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
GROUP_BYTES_BUCKETS: Final = tuple(4**power for power in range(5, 13))
"""From 1 KiB to 16 MiB, the greatest group."""


class CoreMetrics:
    """All numbers of one core. Counters may be touched from any thread."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.registry = registry
        self._batches = _counter(registry, "appended_batches", "Batches appended.")
        self._messages = _counter(registry, "appended_messages", "Messages appended.")
        self._bytes = _counter(registry, "appended_bytes", "Bytes of frames appended.")
        self._repeats = _counter(
            registry, "repeated_batches", "Batches that were in the log already."
        )
        self._refused = Counter(
            "sidegate_core_refused_batches",
            "Batches refused, by code.",
            ["code"],
            registry=registry,
        )
        self._group_batches = Histogram(
            "sidegate_core_group_batches",
            "Batches of one group commit.",
            buckets=GROUP_BUCKETS,
            registry=registry,
        )
        self._group_bytes = Histogram(
            "sidegate_core_group_bytes",
            "Bytes of one group commit.",
            buckets=GROUP_BYTES_BUCKETS,
            registry=registry,
        )
        self._sync_seconds = Histogram(
            "sidegate_core_fsync_seconds",
            "Duration of one sync, by kind of file.",
            ["file"],
            buckets=SECONDS_BUCKETS,
            registry=registry,
        )

    def count_append(self, frames: Sequence[Frame], outcomes: Sequence[Outcome]) -> None:
        """Count what became of one request's frames."""
        batches = messages = size = 0
        for frame, outcome in zip(frames, outcomes, strict=True):
            if isinstance(outcome, Refused):
                self._refused.labels(outcome.code if outcome.code in CODES else "other").inc()
            elif outcome.duplicate:
                self._repeats.inc()
            else:
                batches += 1
                messages += outcome.count
                size += frame.envelope.frame_len
        if batches:
            self._batches.inc(batches)
            self._messages.inc(messages)
            self._bytes.inc(size)

    def observe_sync(self, file: str, seconds: float) -> None:
        """Count one sync of a file of this kind."""
        self._sync_seconds.labels(file).observe(seconds)

    def count_group(self, group: Sequence[Committed]) -> None:
        """Count one group commit of the log on disk."""
        self._group_batches.observe(len(group))
        self._group_bytes.observe(sum(len(batch.frame) for batch in group))


class CoreCollector(Collector):
    """Numbers that are read when somebody asks for them."""

    def __init__(
        self,
        status: Callable[[], LogStatus],
        totals: StreamTotals,
        *,
        streams: Callable[[], int],
        topics: Callable[[], int],
        request_bytes: Callable[[], int],
    ) -> None:
        self._status = status
        self._totals = totals
        self._streams = streams
        self._topics = topics
        self._request_bytes = request_bytes

    def collect(self) -> Iterator[Metric]:
        """One look at the log, and its numbers."""
        status = self._status()
        for name, text, value in (
            ("log_leaves", "Batches that the log holds or held.", status.leaves),
            ("log_durable_leaves", "Of these, synced.", status.durable_leaves),
            ("log_lost_leaves", "Of these, lost to damage.", status.lost_leaves),
            ("log_bytes", "Length of all segments.", status.bytes),
            ("log_segments", "Segments.", status.segments),
            ("log_partitions", "Partitions that ever had a batch.", status.partitions),
            ("log_producers", "Producers remembered for exactly-once.", status.producers),
            ("log_in_flight_bytes", "Bytes accepted and not yet answered.", status.in_flight_bytes),
            ("log_hot_bytes", "Newest frames kept in memory.", status.hot_bytes),
            ("log_checkpoint_leaf", "Where a restart begins to scan.", status.checkpoint_leaf),
            ("disk_free_bytes", "Room on the log's disk.", status.free_bytes),
            ("disk_full", "1 while appends are refused for lack of room.", status.disk_full),
            ("log_failed", "1 once the disk has failed under the log.", status.failed),
            ("request_bytes", "Bytes of append requests being read.", self._request_bytes()),
            ("streams", "Open streams.", self._streams()),
            ("topics", "Topics.", self._topics()),
        ):
            yield GaugeMetricFamily(f"sidegate_core_{name}", text, value=value)
        for name, text, value in (
            ("stream_frames", "Frames sent to streams.", self._totals.frames),
            ("stream_bytes", "Bytes of frames sent to streams.", self._totals.bytes),
            ("stream_lags", "Times that a live reader fell behind.", self._totals.lags),
        ):
            yield CounterMetricFamily(f"sidegate_core_{name}", text, value=value)


def _counter(registry: CollectorRegistry, name: str, text: str) -> Counter:
    return Counter(f"sidegate_core_{name}", text, registry=registry)
