"""Subscriptions in numbers for Prometheus: totals over all, as names would be labels without end.

What one subscription does is told by `GET /v1/subscriptions/{name}`.
"""

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from core_log.subscriptions.cursor_log import CursorLog
from core_log.subscriptions.subscribing import Subscribing


class SubscriptionCollector(Collector):
    """Numbers that are read when somebody asks for them."""

    def __init__(self, subscribing: Subscribing, cursors: CursorLog) -> None:
        self._subscribing = subscribing
        self._cursors = cursors

    def collect(self) -> Iterator[Metric]:
        """One look at all subscriptions."""
        lags = [self._subscribing.lag(each) for each in self._subscribing.all()]
        for name, text, value in (
            ("subscriptions", "Subscriptions.", len(lags)),
            ("subscription_members", "Members of all.", self._subscribing.members),
            ("subscription_in_flight", "Messages in members' hands.", self._subscribing.in_flight),
            ("subscription_lag", "Messages not acknowledged, all together.", sum(lags)),
            (
                "subscription_lag_max",
                "The same of the one that is furthest behind.",
                max(lags, default=0),
            ),
        ):
            yield GaugeMetricFamily(f"sidegate_core_{name}", text, value=value)
        redelivered, expired = self._cursors.totals()
        for name, text, value in (
            ("redelivered_messages", "Messages given out once more.", redelivered),
            ("expired_messages", "Messages removed before they were acknowledged.", expired),
            ("cursor_writes", "Writes of cursors, one sync each.", self._cursors.batch),
        ):
            yield CounterMetricFamily(f"sidegate_core_{name}", text, value=value)
