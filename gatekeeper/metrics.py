"""The gatekeeper's numbers. Labels come from fixed sets or the policy file, never from callers.

May import `prometheus_client`; knows nothing of how a decision is made.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info, Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from gatekeeper.audit.decisions import Ruling
from hosting.metrics import SECONDS_BUCKETS

ADDED_BUCKETS: Final = (
    0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25,
)  # fmt: skip
"""What the gatekeeper itself takes, from one signature to a thousand of them."""


class GateMetrics:
    """One object per service; its fields are the instruments."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.registry = registry
        self._decisions = Counter(
            "sidegate_gatekeeper_decisions",
            "Decisions by action, result, rule and reason.",
            ["action", "result", "rule", "reason"],
            registry=registry,
        )
        self._refusals = Counter(
            "sidegate_gatekeeper_authentication_refusals",
            "Callers that could not prove who they are, by reason.",
            ["reason"],
            registry=registry,
        )
        self._requests = Histogram(
            "sidegate_gatekeeper_request_seconds",
            "Time from a request's headers to the end of its answer.",
            ["route", "status"],
            buckets=SECONDS_BUCKETS,
            registry=registry,
        )
        self._core = Histogram(
            "sidegate_gatekeeper_core_seconds",
            "Time that the core took to answer an append.",
            buckets=SECONDS_BUCKETS,
            registry=registry,
        )
        self._added = Histogram(
            "sidegate_gatekeeper_append_added_seconds",
            "What the gatekeeper itself added to an append: everything but the core's answer.",
            buckets=ADDED_BUCKETS,
            registry=registry,
        )
        self._batches = Counter(
            "sidegate_gatekeeper_batches",
            "Batches by what became of them.",
            ["result"],
            registry=registry,
        )
        self.bytes_in = Counter(
            "sidegate_gatekeeper_append_bytes", "Bytes of append requests.", registry=registry
        )
        self.stream_bytes = Counter(
            "sidegate_gatekeeper_stream_bytes", "Bytes sent to open streams.", registry=registry
        )
        self._streams_ended = Counter(
            "sidegate_gatekeeper_streams_ended",
            "Streams by why they ended.",
            ["code"],
            registry=registry,
        )
        self._policy = Info("sidegate_gatekeeper_policy", "The policy in force.", registry=registry)
        self._routes: dict[tuple[str, int], Histogram] = {}
        self._results: dict[str, Counter] = {}
        self._seen: dict[tuple[str, bool, str, str], Counter] = {}

    def decided(self, ruling: Ruling, count: int = 1) -> None:
        """Count a decision."""
        key = (ruling.action, ruling.allowed, ruling.rule, ruling.reason)
        child = self._seen.get(key)
        if child is None:
            result = "allow" if ruling.allowed else "deny"
            child = self._decisions.labels(ruling.action, result, ruling.rule, ruling.reason)
            self._seen[key] = child
        child.inc(count)

    def judged(self, result: str) -> None:
        """Count a batch: `forwarded`, or the error that it was refused with."""
        child = self._results.get(result)
        if child is None:
            child = self._results[result] = self._batches.labels(result)
        child.inc()

    def refused(self, reason: str) -> None:
        """Count a caller that was not authenticated."""
        self._refusals.labels(reason).inc()

    def answered(self, route: str, status: int, seconds: float) -> None:
        """Count a request."""
        child = self._routes.get((route, status))
        if child is None:
            child = self._routes[route, status] = self._requests.labels(route, str(status))
        child.observe(seconds)

    def appended(self, core_s: float, added_s: float) -> None:
        """Count one append that went to the core."""
        self._core.observe(core_s)
        self._added.observe(added_s)

    def stream_ended(self, code: str) -> None:
        """Count a stream's end."""
        self._streams_ended.labels(code).inc()

    def policy_is(self, policy_hash: bytes) -> None:
        """Name the policy in force."""
        self._policy.info({"sha256": policy_hash.hex()})

    def read_labelled(
        self, name: str, text: str, label: str, read: Callable[[], Mapping[str, float]]
    ) -> None:
        """Numbers by label that are read when somebody asks for them."""
        self.registry.register(_Labelled(name, text, label, read))

    def read_count(self, name: str, text: str, read: Callable[[], float]) -> None:
        """A count that is kept elsewhere and read when somebody asks for it."""
        self.registry.register(_Count(name, text, read))

    def gauge(self, name: str, text: str, read: Callable[[], float]) -> None:
        """A number that is read when somebody asks for it."""
        Gauge(name, text, registry=self.registry).set_function(read)


class _Labelled(Collector):
    def __init__(
        self, name: str, text: str, label: str, read: Callable[[], Mapping[str, float]]
    ) -> None:
        self._name, self._text, self._label, self._read = name, text, label, read

    def collect(self) -> Iterator[Metric]:
        family = GaugeMetricFamily(self._name, self._text, labels=[self._label])
        for value, number in self._read().items():
            family.add_metric([value], number)
        yield family


class _Count(Collector):
    def __init__(self, name: str, text: str, read: Callable[[], float]) -> None:
        self._name, self._text, self._read = name, text, read

    def collect(self) -> Iterator[Metric]:
        yield CounterMetricFamily(self._name, self._text, value=self._read())
