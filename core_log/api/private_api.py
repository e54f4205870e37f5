"""The private API as a component: the `/v1` routes on top of the storage, at one address."""

import asyncio
import os
import ssl
from collections.abc import Mapping
from importlib.metadata import version
from typing import Final

from core_log.api.admission import Admission
from core_log.api.append import Appender
from core_log.api.channel_routes import ChannelRoutes
from core_log.api.fast_append import FastAppend
from core_log.api.proof_routes import ProofRoutes
from core_log.api.reading import Reads
from core_log.api.request_body import Bodies
from core_log.api.revocation_routes import RevocationRoutes
from core_log.api.server import Api, make_app
from core_log.api.stream import StreamTotals
from core_log.api.stream_route import StreamRoute
from core_log.api.subscription_routes import SubscriptionRoutes
from core_log.api.topic_routes import TopicRoutes
from core_log.clock import Clock
from core_log.config import CoreConfig
from core_log.metrics import CoreCollector, CoreMetrics
from core_log.storage import Storage
from core_log.subscriptions.subscription_metrics import SubscriptionCollector
from core_log.tree.checkpointing import Checkpointing
from core_log.tree.tree_metrics import TreeCollector
from hosting.metrics import HttpMetrics
from hosting.tracing import Tracing
from hosting.units import Address
from hosting.web import HttpLimits, HttpSite

REQUEST_CONNECTIONS: Final = 1024
"""Connections beside those of streams: a few gatekeepers with some hundred requests each."""
_OWNER_ONLY: Final = 0o600
_EVERY_USER: Final = 0o666
"""Where gatekeepers run as other users the kernel's word about them decides, not the file mode."""


class PrivateApi:
    """Serves gatekeepers. Built when it starts, because the storage is open only then."""

    name = "api"

    def __init__(
        self,
        config: CoreConfig,
        storage: Storage,
        checkpoints: Checkpointing,
        metrics: CoreMetrics,
        *,
        clock: Clock,
        ssl_context: ssl.SSLContext | None,
        tracing: Tracing,
    ) -> None:
        self._config = config
        self._storage = storage
        self._checkpoints = checkpoints
        self._metrics = metrics
        self._clock = clock
        self._ssl = ssl_context
        self._tracing = tracing
        self._http_metrics = HttpMetrics(metrics.registry)
        self._appender: Appender | None = None
        self._proofs: ProofRoutes | None = None
        self._site: HttpSite | None = None
        self.front: FastAppend | None = None

    @property
    def address(self) -> Address:
        """Where it listens; after `start`, with the port that port 0 became."""
        return self._config.listen if self._site is None else self._site.address

    async def start(self) -> None:
        """Build the application and listen."""
        storage, limits = self._storage, self._config.limits
        draining = asyncio.Event()
        appender = Appender(storage.catalog, self._metrics)
        bodies = Bodies(limits.request_bytes_max)
        totals = StreamTotals()
        streams = StreamRoute(
            storage.catalog,
            storage.broadcast,
            totals,
            draining,
            subscribing=storage.subscribing,
            streams_max=limits.streams_max,
        )
        proofs = ProofRoutes(self._checkpoints, storage.catalog, storage.disk.log, draining)
        api = Api(
            appender=appender,
            bodies=bodies,
            reads=Reads(storage.catalog, storage.broadcast, draining),
            streams=streams,
            topics=TopicRoutes(storage.catalog),
            revocations=RevocationRoutes(storage.control, self._clock, draining),
            proofs=proofs,
            subscriptions=SubscriptionRoutes(storage.subscribing, draining),
            channels=ChannelRoutes(storage.control),
            status=self._status,
            tracing=self._tracing,
        )
        admission = Admission(
            frozenset(self._config.admit) if not self._config.listen.is_unix else frozenset(),
            frozenset(self._config.admit_uids),
        )
        front = FastAppend(
            appender,
            bodies,
            admission,
            site=self.name,
            metrics=self._http_metrics,
            tracing=self._tracing,
            connections_max=REQUEST_CONNECTIONS,
            draining=draining,
        )
        site = HttpSite(
            self.name,
            make_app(api, admission, draining),
            self._config.listen,
            ssl=self._ssl,
            limits=HttpLimits(connections_max=limits.streams_max + REQUEST_CONNECTIONS),
            metrics=self._http_metrics,
            socket_mode=_OWNER_ONLY if admission.uids <= {os.getuid()} else _EVERY_USER,
            front=front.wrap,
        )
        await site.start()
        await front.start()
        self._site, self.front, self._appender, self._proofs = site, front, appender, proofs
        storage.disk.tail(self._metrics.count_group)
        self._metrics.registry.register(SubscriptionCollector(storage.subscribing, storage.cursors))
        self._metrics.registry.register(
            CoreCollector(
                storage.disk.status,
                totals,
                streams=lambda: len(streams),
                topics=lambda: len(storage.catalog),
                request_bytes=lambda: bodies.bytes,
            )
        )
        self._metrics.registry.register(TreeCollector(self._checkpoints, self._clock))

    async def drain(self) -> None:
        """Refuse new requests, end streams and waits, finish the appends that were accepted."""
        if self._site is not None and self.front is not None:
            await asyncio.gather(self.front.drain(), self._site.drain())

    async def stop(self) -> None:
        """Close every connection."""
        if self.front is not None:
            await self.front.stop()
        if self._site is not None:
            await self._site.stop()
        if self._appender is not None:
            self._appender.close()
        if self._proofs is not None:
            self._proofs.close()

    def _status(self) -> Mapping[str, object]:
        storage = self._storage
        status = storage.disk.status()
        return {
            "service": "core",
            "version": version("sidegate"),
            "log_id": storage.disk.log.log_id.hex(),
            "leaves": status.leaves,
            "durable_leaves": status.durable_leaves,
            "durability": status.durability,
            "topics": len(storage.catalog),
            "partitions": status.partitions,
            "segments": status.segments,
            "bytes": status.bytes,
            "free_bytes": status.free_bytes,
            "disk_full": status.disk_full,
            "in_flight_bytes": status.in_flight_bytes,
            "lost_leaves": status.lost_leaves,
            **self._checkpoints.status(),
            "auto_create_topics": self._config.auto_create_topics,
            "subscriptions": len(storage.subscribing),
            "members": storage.subscribing.members,
            "channels": len(storage.control.state.channels),
        }
