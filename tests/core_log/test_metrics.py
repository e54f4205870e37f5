"""The core's numbers: counted once each, under labels from fixed sets."""

from typing import Any

from prometheus_client import CollectorRegistry

from core_log.api.stream import StreamTotals
from core_log.log.engine import Announced
from core_log.log.results import Appended, Committed, LogStatus, Refused
from core_log.metrics import CoreCollector, CoreMetrics

STATUS = LogStatus(
    leaves=7,
    durable_leaves=6,
    segments=2,
    partitions=3,
    bytes=1000,
    free_bytes=5000,
    disk_full=True,
    failed=False,
    durability="fsync",
    in_flight_bytes=11,
    hot_bytes=12,
    producers=4,
    lost_leaves=1,
    groups=5,
    last_sync_s=0.1,
    checkpoint_leaf=6,
)


def value(registry: CollectorRegistry, name: str, **labels: str) -> float | None:
    return registry.get_sample_value(f"sidegate_core_{name}", labels)


def test_appends_are_counted_by_what_became_of_them(frames: Any) -> None:
    registry = CollectorRegistry()
    metrics = CoreMetrics(registry)
    sample = [frames.frame("a", [b"1", b"2"]) for _ in range(6)]
    metrics.count_append(
        sample,
        [
            Appended("a", 0, 0, 2, 0, 0, "committed", duplicate=False),
            Appended("a", 0, 0, 2, 0, 0, "committed", duplicate=True),
            Announced("a", 0, 0, 2, 0, duplicate=False),
            Refused("a", 0, "unknown_topic", "", retryable=False),
            Refused("a", 0, "unknown_topic", "", retryable=False),
            Refused("a", 0, "a code invented by a caller", "", retryable=False),
        ],
    )
    assert value(registry, "appended_batches_total") == 2
    assert value(registry, "appended_messages_total") == 4
    assert value(registry, "appended_bytes_total") == 2 * sample[0].envelope.frame_len
    assert value(registry, "repeated_batches_total") == 1
    assert value(registry, "refused_batches_total", code="unknown_topic") == 2
    assert value(registry, "refused_batches_total", code="other") == 1


def test_groups_and_syncs_have_histograms() -> None:
    registry = CollectorRegistry()
    metrics = CoreMetrics(registry)
    metrics.count_group([Committed("a", 0, 0, 1, 0, 0, b"x" * 2000)] * 3)
    metrics.observe_sync("segment", 0.002)
    assert value(registry, "group_batches_sum") == 3
    assert value(registry, "group_bytes_sum") == 6000
    assert value(registry, "fsync_seconds_count", file="segment") == 1


def test_the_logs_own_numbers_are_read_when_asked_for() -> None:
    registry = CollectorRegistry()
    totals = StreamTotals(frames=5, bytes=50, lags=2)
    registry.register(
        CoreCollector(
            lambda: STATUS,
            totals,
            streams=lambda: 8,
            topics=lambda: 9,
            request_bytes=lambda: 10,
        )
    )
    assert value(registry, "log_leaves") == 7
    assert value(registry, "disk_free_bytes") == 5000
    assert value(registry, "disk_full") == 1
    assert value(registry, "log_in_flight_bytes") == 11
    assert value(registry, "streams") == 8
    assert value(registry, "topics") == 9
    assert value(registry, "request_bytes") == 10
    assert value(registry, "stream_bytes_total") == 50
    assert value(registry, "stream_lags_total") == 2
