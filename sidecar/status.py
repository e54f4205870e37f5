"""What `/status` says, and the metrics that are read from the same numbers."""

from collections.abc import Callable, Iterator
from importlib.metadata import version

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from sidecar.counters import Counters
from sidecar.credentials import CredentialSource
from sidecar.publisher import Publisher
from sidecar.uplink import Uplink


class Status:
    """Reads the numbers of the parts; keeps none itself."""

    def __init__(
        self,
        uplink: Uplink,
        publisher: Publisher,
        credentials: CredentialSource,
        counters: Counters,
        gatekeeper: Callable[[], str],
        streams: Callable[[], int],
    ) -> None:
        self._uplink = uplink
        self._publisher = publisher
        self._credentials = credentials
        self._counters = counters
        self._gatekeeper = gatekeeper
        self._streams = streams

    def document(self) -> dict[str, object]:
        """Everything that an operator asks first."""
        counters = self._counters
        return {
            "service": "sidecar",
            "version": version("sidegate"),
            **self._uplink.state.document(),
            "gatekeeper": self._gatekeeper(),
            "token": "valid" if self._credentials.current else "none",
            "token_error": self._credentials.error,
            "queues": {
                "waiting_messages": self._publisher.waiting_messages,
                "unsettled_batches": self._publisher.unsettled_batches,
                "partitions": len(self._publisher.lanes),
            },
            "committed": {
                "messages": counters.committed_messages,
                "batches": counters.committed_batches,
                "bytes": counters.committed_bytes,
            },
            "denied": counters.denied_messages,
            "last_denial": counters.last_denial,
            "in_doubt": counters.in_doubt,
            "delivered": counters.delivered_messages,
            "streams": self._streams(),
        }


class StatusCollector(Collector):
    """The same numbers for Prometheus, read when it asks."""

    def __init__(
        self, uplink: Uplink, publisher: Publisher, counters: Counters, streams: Callable[[], int]
    ) -> None:
        self._uplink = uplink
        self._publisher = publisher
        self._counters = counters
        self._streams = streams

    def collect(self) -> Iterator[Metric]:
        """Gauges and counters of the moment."""
        counters = self._counters
        for name, text, value in (
            ("sidecar_uplink_connected", "1 while a gatekeeper answers.", self._uplink.connected),
            (
                "sidecar_waiting_messages",
                "Messages not yet in a batch.",
                self._publisher.waiting_messages,
            ),
            (
                "sidecar_unsettled_batches",
                "Batches under way or in doubt.",
                self._publisher.unsettled_batches,
            ),
            ("sidecar_streams", "Open subscriptions.", self._streams()),
        ):
            yield GaugeMetricFamily(name, text, value=float(value))
        for name, text, value in (
            ("sidecar_committed_messages", "Messages in the log.", counters.committed_messages),
            ("sidecar_committed_batches", "Batches in the log.", counters.committed_batches),
            ("sidecar_committed_bytes", "Bytes of those batches.", counters.committed_bytes),
            ("sidecar_denied_messages", "Messages that policy refused.", counters.denied_messages),
            ("sidecar_in_doubt_answers", "Publishes answered with 504.", counters.in_doubt),
            ("sidecar_delivered_messages", "Messages given out.", counters.delivered_messages),
        ):
            yield CounterMetricFamily(name, text, value=float(value))
