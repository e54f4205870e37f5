"""The numbers that every service has: its version, whether it is ready, and its certificate's end.

May import prometheus_client, the lifecycle and TLS. Must never know what a service does.
"""

from collections.abc import Iterator
from importlib.metadata import version

from prometheus_client import CollectorRegistry, Metric
from prometheus_client.core import GaugeMetricFamily, InfoMetricFamily
from prometheus_client.registry import Collector

from hosting.lifecycle import Service
from hosting.tls import ReloadingContexts


def add_vitals(
    registry: CollectorRegistry, service: Service, contexts: ReloadingContexts | None = None
) -> None:
    """Count `service` in `registry`; `contexts` holds its certificate, where it has one."""
    registry.register(_Vitals(service, contexts))


class _Vitals(Collector):
    """Read when somebody asks: certificates are renewed while a service runs."""

    def __init__(self, service: Service, contexts: ReloadingContexts | None) -> None:
        self._service = service
        self._contexts = contexts

    def describe(self) -> list[Metric]:
        """Nothing: registering must not ask a service that has not started."""
        return []

    def collect(self) -> Iterator[Metric]:
        """What holds now."""
        yield InfoMetricFamily(
            "sidegate_build",
            "What runs.",
            value={"service": self._service.name, "version": version("sidegate")},
        )
        ready = self._service.readiness().ready
        yield GaugeMetricFamily("sidegate_ready", "1 while /readyz answers 200.", value=ready)
        if self._contexts is not None:
            leaf = self._contexts.leaf
            for name, text, moment in (
                ("begins", "When the service's own certificate began.", leaf.not_before),
                ("expires", "When the service's own certificate ends.", leaf.not_after),
            ):
                yield GaugeMetricFamily(
                    f"sidegate_certificate_{name}_timestamp_seconds", text, value=moment.timestamp()
                )
