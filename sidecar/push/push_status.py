"""What `/status` and `/metrics` say about pushes. Reads the workers' numbers; keeps none itself."""

from collections.abc import Iterator
from typing import Any, Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from sidecar.push.push_plan import COUNTS
from sidecar.push.pushes import Pushes

_TEXTS: Final = {
    "delivered": "Messages that webhooks have taken.",
    "failed": "Tries that failed.",
    "dead": "Messages that went to the dead letters.",
    "dropped": "Messages dropped after their last try.",
    "filtered": "Messages that a filter left out.",
    "redelivered": "Messages that were given out before.",
}


def push_status(pushes: Pushes) -> dict[str, Any]:
    """All subscriptions together; `GET /subscriptions/{name}` has each."""
    total = pushes.tally()
    workers = [each.worker for each in pushes.running.values() if each.worker is not None]
    return {
        "subscriptions": len(pushes.running),
        "in_flight": sum(worker.queue.busy for worker in workers),
        "held": sum(worker.queue.held for worker in workers),
        "unreachable": sorted(
            worker.plan.name for worker in workers if worker.queue.down_since_us is not None
        ),
        **{name: getattr(total, name) for name in COUNTS},
        "error": pushes.error,
    }


def push_metrics(pushes: Pushes) -> Iterator[Metric]:
    """The same for Prometheus: counts of all, gauges of each subscription."""
    total = pushes.tally()
    for name, text in _TEXTS.items():
        yield CounterMetricFamily(
            f"sidegate_sidecar_push_{name}_messages", text, value=float(getattr(total, name))
        )
    gauges = {
        name: GaugeMetricFamily(f"sidegate_sidecar_push_{name}", text, labels=["subscription"])
        for name, text in (
            ("in_flight", "Requests to the webhook under way."),
            ("held_messages", "Messages in hand, those that wait for a try included."),
            ("unreachable", "1 while nothing can be sent to the webhook at all."),
        )
    }
    for name, running in sorted(pushes.running.items()):
        if running.worker is not None:
            queue = running.worker.queue
            gauges["in_flight"].add_metric([name], queue.busy)
            gauges["held_messages"].add_metric([name], queue.held)
            gauges["unreachable"].add_metric([name], float(queue.down_since_us is not None))
    yield from gauges.values()
