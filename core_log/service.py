"""The core as a service: its components in order, and what has to hold for it to be ready.

    run_service(lambda: make_service(config))

Health comes first, so that it answers while a large log is recovered and until the very end;
then TLS, the storage, the timers of checkpoints and of the cleaner, and the private API, which is
the first to stop.
"""

import sys
from typing import Final

from core_log.api.private_api import REQUEST_CONNECTIONS, PrivateApi
from core_log.cleaning import Cleaning
from core_log.clock import Clock, SystemClock
from core_log.config import CoreConfig
from core_log.log.files import Files
from core_log.log.measured_files import MeasuredFiles
from core_log.metrics import CoreMetrics
from core_log.open_files import allow_open_files
from core_log.storage import Storage
from core_log.tree.checkpointing import Checkpointing
from hosting.lifecycle import Service
from hosting.metrics import new_registry
from hosting.tls import ReloadingContexts
from hosting.tracing import Tracing
from hosting.vitals import add_vitals
from hosting.web import HttpSite, health_app

SWITCH_S: Final = 0.001
"""How long the busy event loop may keep the writer thread from going on after its sync: the
interpreter's default of 5 ms is ten times what the sync itself takes."""


class Core:
    """A core that is ready to run, and its parts, for whoever has to know where it listens."""

    def __init__(
        self, config: CoreConfig, *, clock: Clock | None = None, files: Files | None = None
    ) -> None:
        registry = new_registry()
        metrics = CoreMetrics(registry)
        clock = clock or SystemClock()
        self.service = Service("core")
        self.health = HttpSite(
            "health",
            health_app(self.service, registry),
            config.health,
            setting="health",
            serves_while_draining=True,
        )
        files = files or MeasuredFiles(metrics.observe_sync)
        self.storage = Storage(config, clock=clock, files=files, on_failure=self._fail)
        self.checkpoints = Checkpointing(config, self.storage, clock, files)
        contexts = None
        if config.tls is not None and not config.listen.is_unix:
            contexts = ReloadingContexts(
                config.tls, client_ca=config.tls.ca, environment=config.environment
            )
        tracing = Tracing("core", config.tracing)
        self.api = PrivateApi(
            config,
            self.storage,
            self.checkpoints,
            metrics,
            clock=clock,
            ssl_context=None if contexts is None else contexts.server,
            tracing=tracing,
        )
        self.cleaning = Cleaning(self.storage, config.log.clean_interval)
        self.service.add(self.health)
        if contexts is not None:
            self.service.add(contexts)
            self.service.add_check("tls", contexts.readiness)
        self.service.add(tracing)
        self.service.add(self.storage)
        self.service.add(self.checkpoints)
        self.service.add(self.cleaning)
        self.service.add(self.api)
        self.service.add_check("storage", self.storage.readiness)
        self.service.add_check("tree", self.checkpoints.readiness)
        add_vitals(registry, self.service, contexts)

    def _fail(self, error: Exception) -> None:
        """The disk failed under a log: nothing can be promised any more, so the process ends."""
        self.service.fail(f"the disk failed under the log: {error}; restart to recover")


def make_service(config: CoreConfig) -> Service:
    """The core's service. Call it inside the event loop that will run it."""
    sys.setswitchinterval(SWITCH_S)
    allow_open_files(config.limits.streams_max + REQUEST_CONNECTIONS)
    return Core(config).service
