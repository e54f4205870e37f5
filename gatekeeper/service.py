"""The gatekeeper as a service: all parts, put together in the order in which they start.

The only module that knows every other one. `build` is what `sidegate gatekeeper` runs.
"""

import hashlib
import resource
import time
from typing import Final

from gatekeeper.api.about import About
from gatekeeper.api.admin import Admin
from gatekeeper.api.channels import Channels
from gatekeeper.api.connections import Connections
from gatekeeper.api.dispatch import Dispatch
from gatekeeper.api.fast_append import FastAppend
from gatekeeper.api.front_door import FrontDoor
from gatekeeper.api.gate import Gate
from gatekeeper.api.history import History
from gatekeeper.api.intake import Intake
from gatekeeper.api.membership import Membership
from gatekeeper.api.operators import Operators
from gatekeeper.api.places import Places
from gatekeeper.api.proofs import Proofs
from gatekeeper.api.publishing import Publishing
from gatekeeper.api.quotas import Quotas
from gatekeeper.api.server import Listener, ServerLimits
from gatekeeper.api.stream import Streaming
from gatekeeper.api.streams import Streams
from gatekeeper.api.subscriptions import Subscriptions
from gatekeeper.api.topics import Topics
from gatekeeper.audit.audit_batch import Signer
from gatekeeper.audit.decision_log import DecisionLog
from gatekeeper.config import GatekeeperConfig
from gatekeeper.core.core_connectors import core_client
from gatekeeper.identity.authenticator import Authenticator
from gatekeeper.identity.revocation_feed import RevocationFeed
from gatekeeper.identity.trust import TrustDomain
from gatekeeper.metrics import GateMetrics
from gatekeeper.policy.decide import Policy
from gatekeeper.policy.reload import PolicyFile
from gatekeeper.provenance import Sealer
from gatekeeper.witness.watch import Watch
from hosting.health import health_app
from hosting.lifecycle import Readiness, Service
from hosting.metrics import new_registry
from hosting.signing_key import load_signing_key
from hosting.tls import ReloadingContexts, TlsFiles
from hosting.tracing import Tracing
from hosting.vitals import add_vitals
from hosting.web import HttpSite

NAME: Final = "gatekeeper"
OPEN_FILES_WANTED: Final = 65_536
"""A connection of a caller and, for a stream, one to the core each; the system's usual 1,024 would
be reached long before `connections_max`."""


class Gatekeeper:
    """All parts of one gatekeeper. Make it inside the event loop in which it will run."""

    def __init__(self, config: GatekeeperConfig) -> None:
        self.config = config
        self.registry = new_registry()
        self.metrics = GateMetrics(self.registry)
        self.contexts = ReloadingContexts(
            TlsFiles(config.tls.certificate, config.tls.key, config.tls.ca),
            client_ca=[domain.bundle for domain in config.trust_domains.values()],
            ca=config.tls.ca,
            environment=config.environment,
        )
        self.authenticator = Authenticator(
            issuers=(),
            domains=[
                TrustDomain(name, domain.bundle, domain.crl, domain.crl_file)
                for name, domain in config.trust_domains.items()
            ],
        )
        self.policies = PolicyFile(
            config.policy,
            environment=config.environment,
            registry=self.registry,
            changed=self._policy_changed,
        )
        self.tracing = Tracing("gatekeeper", config.tracing)
        self.sealer = Sealer(load_signing_key(config.signing_key), config.id)
        self.core = core_client(config.core, self.contexts)
        self.decision_log = DecisionLog(
            self.core,
            lambda: Signer(self.sealer, hashlib.sha256(self.contexts.leaf.der).digest()),
            config=config.audit,
            failure=config.audit_failure,
            gatekeeper_id=config.id,
            folder=config.data,
            policy_hash=lambda: self.policies.policy.hash,
        )
        self.connections = Connections(
            connections_max=config.limits.connections_max,
            connections_per_principal_max=config.limits.connections_per_principal_max,
            age_s_max=config.limits.connection_age_max,
        )
        self.feed = RevocationFeed(
            self.core,
            self.authenticator,
            gatekeeper_id=config.id,
            changed=self._revocations_changed,
        )
        self.watch = Watch(config, self.core, self.sealer)
        self.quotas = Quotas()
        self.gate = Gate(
            authenticator=self.authenticator,
            policy=lambda: self.policies.policy,
            connections=self.connections,
            decision_log=self.decision_log,
            metrics=self.metrics,
            quotas=self.quotas,
            require_known=self.feed.require_known,
            stands_for_s=config.audit.stands_for,
        )
        self.streams = Streams(
            authenticator=self.authenticator,
            policy=lambda: self.policies.policy,
            connections=self.connections,
            interval_s=config.limits.recheck_interval,
            note_denial=self.gate.note_denial,
        )
        self.operators = Operators(config.data)
        self.intake = Intake(
            in_flight_bytes_max=config.limits.in_flight_bytes_max,
            timeout_s=config.limits.body_timeout,
        )
        self.publishing = self._publishing()
        self.dispatch = self._dispatch()
        self.fast = FastAppend(
            self.publishing,
            gate=self.gate,
            connections=self.connections,
            intake=self.intake,
            metrics=self.metrics,
            tracing=self.tracing,
            limits=config.limits,
        )
        self.listener = Listener(
            self.dispatch,
            config.listen,
            context=self.contexts.server,
            connections=self.connections,
            limits=ServerLimits(
                handshake_timeout_s=config.limits.handshake_timeout,
                handshakes_max=config.limits.handshakes_max,
                header_timeout_s=config.limits.header_timeout,
                header_bytes_max=config.limits.header_bytes_max,
                headers_max=config.limits.headers_max,
            ),
            front=self.fast.wrap,
        )

        self._measure()

    def service(self) -> Service:
        """The service, not yet running."""
        config = self.config
        service = Service(
            NAME,
            components=[
                self.tracing,
                self.operators,
                self.contexts,
                self.policies,
                self.authenticator,
                self.core,
                self.decision_log,
                self.feed,
                self.watch,
                FrontDoor(self.listener, self.fast, self.dispatch, self.streams),
            ],
            checks={
                "tls": self.contexts.readiness,
                "policy": self.policies.readiness,
                "authentication": lambda: self.authenticator.readiness(time.time()),
                "core": self._core_readiness,
                "decision_log": self._log_readiness,
                "witness": self.watch.readiness,
            },
        )
        add_vitals(self.registry, service, self.contexts)
        self.health = HttpSite(
            "health",
            health_app(service, self.registry),
            config.health,
            setting="health",
            serves_while_draining=True,
        )
        admin = Admin(
            operators=self.operators,
            decision_log=self.decision_log,
            policies=self.policies,
            feed=self.feed,
            core=self.core,
            gatekeeper_id=config.id,
            status=self.status,
        )
        self.admin = HttpSite("admin", admin.app(), config.admin, setting="admin")
        service.add(self.admin)
        service.add(self.health)
        return service

    def status(self) -> dict[str, object]:
        """What this gatekeeper has in its hands."""
        return {
            "gatekeeper": self.config.id,
            "connections": len(self.connections),
            "handshakes": self.listener.handshakes,
            "requests": self.dispatch.in_flight,
            "request_bytes": self.intake.in_flight,
            "streams": len(self.streams),
            "core": "connected" if self.feed.reachable else "down",
            "policy": self.policies.policy.hash.hex(),
            "revocations_version": self.feed.version,
            "witness": self.watch.readiness().detail,
            "decision_log": {
                "waiting": self.decision_log.waiting,
                "written": self.decision_log.written,
                "summarised": self.decision_log.suppressed,
                "lost": self.decision_log.lost,
                "failing": self.decision_log.failing,
            },
        }

    def _measure(self) -> None:
        gauge, count = self.metrics.gauge, self.metrics.read_count
        log, listener = self.decision_log, self.listener
        gauge("sidegate_gatekeeper_connections", "Open connections.", lambda: len(self.connections))
        gauge("sidegate_gatekeeper_streams", "Open streams.", lambda: len(self.streams))
        gauge(
            "sidegate_gatekeeper_handshakes", "Handshakes in progress.", lambda: listener.handshakes
        )
        gauge(
            "sidegate_gatekeeper_request_bytes", "Bodies in memory.", lambda: self.intake.in_flight
        )
        gauge(
            "sidegate_gatekeeper_core_up", "1 while the core answers.", lambda: self.feed.reachable
        )
        gauge(
            "sidegate_gatekeeper_audit_waiting", "Decisions not yet written.", lambda: log.waiting
        )
        gauge(
            "sidegate_gatekeeper_audit_failing",
            "1 while the decision log can't be written.",
            lambda: log.failing is not None,
        )
        count("sidegate_gatekeeper_audit_written", "Decisions written.", lambda: log.written)
        count(
            "sidegate_gatekeeper_audit_summarised", "Denials counted only.", lambda: log.suppressed
        )
        count("sidegate_gatekeeper_audit_lost", "Decisions that were lost.", lambda: log.lost)
        count(
            "sidegate_gatekeeper_handshakes_failed",
            "Handshakes that failed.",
            lambda: listener.handshakes_failed,
        )
        count(
            "sidegate_gatekeeper_handshakes_dropped",
            "Handshakes dropped for newer ones.",
            lambda: listener.handshakes_dropped,
        )
        self.watch.measure(self.metrics)
        self.metrics.read_labelled(
            "sidegate_gatekeeper_jwks_age_seconds",
            "Age of each issuer's keys.",
            "issuer",
            self._keys_age,
        )

    def _keys_age(self) -> dict[str, float]:
        issuers = self.authenticator.readiness(time.time()).detail.get("issuers")
        if not isinstance(issuers, dict):
            return {}
        ages = {name: state.get("keys_age_s") for name, state in issuers.items()}
        return {name: age for name, age in ages.items() if age is not None}

    def _revocations_changed(self) -> None:
        self.streams.look_again()

    def _policy_changed(self, policy: Policy) -> None:
        self.authenticator.replace_issuers(issuer.settings for issuer in policy.document.issuers)
        self.metrics.policy_is(policy.hash)
        self.streams.look_again()

    def _publishing(self) -> Publishing:
        return Publishing(
            gate=self.gate,
            core=self.core,
            sealer=self.sealer,
            quotas=self.quotas,
            intake=self.intake,
            metrics=self.metrics,
            request_bytes_max=self.config.limits.request_bytes_max,
            require_sound=self.watch.require_sound,
            tracing=self.tracing,
        )

    def _dispatch(self) -> Dispatch:
        limits = self.config.limits
        gate, core = self.gate, self.core
        history = History(
            gate=gate,
            core=core,
            read_bytes_max=limits.read_bytes_max,
            wait_s_max=limits.wait_max,
            answer_s_max=limits.body_timeout,
        )
        places = Places(gate=gate, core=core)
        streaming = Streaming(
            gate=gate,
            authenticator=self.authenticator,
            core=core,
            quotas=self.quotas,
            streams=self.streams,
            metrics=self.metrics,
            limits=limits,
            membership=Membership(gate=gate, core=core, places=places),
        )
        subscriptions = Subscriptions(
            gate=gate,
            core=core,
            places=places,
            intake=self.intake,
            json_bytes_max=limits.json_bytes_max,
            wait_s_max=limits.wait_max,
        )
        channels = Channels(core=core, intake=self.intake, json_bytes_max=limits.json_bytes_max)
        topics = Topics(
            gate=gate, core=core, intake=self.intake, json_bytes_max=limits.json_bytes_max
        )
        proofs = Proofs(gate=gate, core=core, wait_s_max=limits.wait_max)
        about = About(gate=gate, core=core, gatekeeper_id=self.config.id)
        return Dispatch(
            {
                "append": self.publishing.append,
                "read": history.read,
                "stream": streaming.stream,
                "list_topics": topics.list_topics,
                "create_topic": topics.create_topic,
                "describe_topic": topics.describe_topic,
                "alter_topic": topics.alter_topic,
                "delete_topic": topics.delete_topic,
                "offsets": topics.offsets,
                **subscriptions.handlers(),
                **channels.handlers(),
                "checkpoint": proofs.checkpoint,
                "proof": proofs.proof,
                "status": about.status,
                "whoami": about.whoami,
                "access": about.access,
            },
            gate=gate,
            connections=self.connections,
            metrics=self.metrics,
        )

    def _core_readiness(self) -> Readiness:
        feed = self.feed
        detail: dict[str, object] = {
            "reachable": feed.reachable,
            "revocations_version": feed.version,
        }
        if self.core.last_error is not None:
            detail["error"] = self.core.last_error
        if feed.problem is not None:
            detail["problem"] = feed.problem
        return Readiness(feed.reachable and feed.known and feed.problem is None, detail)

    def _log_readiness(self) -> Readiness:
        written = self.decision_log
        detail: dict[str, object] = {"waiting": written.waiting, "lost": written.lost}
        if written.failing is not None:
            detail["error"] = written.failing
        closed = self.config.audit_failure == "closed"
        return Readiness(written.failing is None or not closed, detail)


def build(config: GatekeeperConfig) -> Service:
    """The service that `sidegate gatekeeper` runs. Call it inside the event loop."""
    allow_open_files()
    return Gatekeeper(config).service()


def allow_open_files(wanted: int = OPEN_FILES_WANTED) -> None:
    """Raise the number of files that this process may open, as far as the system lets it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
