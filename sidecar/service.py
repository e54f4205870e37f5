"""Puts the parts together: from a configuration to a service that can be run."""

import asyncio
import logging
import time
from dataclasses import dataclass
from functools import partial

from aiohttp import web

from hosting.health import add_health_routes, health_app
from hosting.lifecycle import Readiness, Service
from hosting.metrics import HttpMetrics, new_registry
from hosting.tls import ReloadingContexts, TlsFiles
from hosting.tracing import Tracing
from hosting.vitals import add_vitals
from hosting.web import DRAINING, HttpLimits, HttpSite
from sidecar.api.app import json_response, make_app, read_app_token
from sidecar.api.broker_site import BrokerSite
from sidecar.api.fast_publish import FastFront
from sidecar.api.guard import Guard
from sidecar.api.http_many import ManyHandlers
from sidecar.api.http_publish import Check, PublishHandlers, make_patience
from sidecar.api.http_publish_stream import StreamHandlers
from sidecar.api.http_read import ReadHandlers
from sidecar.api.http_receipt import ReceiptHandlers
from sidecar.api.http_register import RegisterHandlers
from sidecar.api.http_rejects import RejectHandlers
from sidecar.api.http_socket import SocketHandlers
from sidecar.api.http_subscribe import SubscribeHandlers, Subscribing
from sidecar.api.http_topics import TopicHandlers
from sidecar.api.http_whoami import whoami_handler
from sidecar.config import LimitsConfig, SidecarConfig
from sidecar.counters import Counters
from sidecar.delivery.member import MemberSession, Membership
from sidecar.delivery.member_registry import MemberRegistry
from sidecar.delivery.reader import Reader
from sidecar.delivery.start import Start
from sidecar.delivery.topic_stream import TopicStream
from sidecar.publish.batch import Batch
from sidecar.publish.dedupe import DedupeWindow
from sidecar.publish.dedupe_gate import DedupeGate
from sidecar.publish.dedupe_journal import DedupeJournal
from sidecar.publish.id_search import find_id, find_ids
from sidecar.publish.lane import LaneLimits
from sidecar.publish.last_answers import LastAnswers
from sidecar.publish.producer import ProducerState
from sidecar.publish.publisher import Publisher
from sidecar.publish.receipts import Receipts
from sidecar.publish.registrations import Registrations
from sidecar.publish.results import AppendResult
from sidecar.push.push_assembly import assemble_pushes
from sidecar.push.pushes import Pushes
from sidecar.spool.outbox import Outbox
from sidecar.spool.reject_retry import RejectRetry
from sidecar.spool.rejects import RejectFile
from sidecar.spool.spool_files import FileLayer
from sidecar.status import Status, StatusCollector
from sidecar.uplink.credentials import CredentialSource
from sidecar.uplink.directory import Directory
from sidecar.uplink.gateway import Gateway
from sidecar.uplink.oauth import Client
from sidecar.uplink.topic_memory import TopicMemory
from sidecar.uplink.uplink import Uplink

log = logging.getLogger("sidegate.sidecar")

BODY_S_MAX = 24 * 3600.0
"""An app may stream lines for as long as it likes; whoever reaches this port is on our side."""


@dataclass(frozen=True, slots=True)
class Assembly:
    """A service and the parts of it that others may want to look at."""

    service: Service
    site: HttpSite
    uplink: Uplink
    publisher: Publisher
    outbox: Outbox
    pushes: Pushes
    members: MemberRegistry


def build(config: SidecarConfig) -> Service:
    """The sidecar as `config` describes it. Files are read, nothing is sent yet."""
    return assemble(config).service


def assemble(config: SidecarConfig, spool_disk: FileLayer | None = None) -> Assembly:
    """The same, with its parts; the spool writes through `spool_disk`."""
    limits, counters = config.limits, Counters()
    guard = Guard.of(config.allowed_hosts)
    files = TlsFiles(config.tls.certificate, config.tls.key, config.tls.ca)
    contexts = ReloadingContexts(files, environment=config.environment)
    credentials = CredentialSource(files, contexts, _client(config), issuer_ca=config.oauth.ca)
    tracing = Tracing("sidecar", config.tracing)
    gateway = Gateway(config.gatekeepers, config.gatekeeper_id, credentials)
    directory = Directory(gateway, TopicMemory(config.data))
    uplink = Uplink(
        gateway,
        request_bytes_max=limits.request_bytes_max,
        requests_in_flight_max=limits.requests_in_flight_max,
        tracing=tracing,
    )
    outbox = Outbox(
        config.data / "spool",
        bytes_max=config.spool.bytes_max,
        segment_bytes=config.spool.segment_bytes,
        drain_bytes_per_s=config.spool.drain_bytes_per_s,
        files=spool_disk,
    )
    dedupe = DedupeGate(
        DedupeWindow(config.dedupe.ids_max, config.dedupe.age),
        # An id has two records: that it was begun, and what became of it.
        DedupeJournal(config.data, 2 * config.dedupe.ids_max),
        partial(find_id, gateway),
        config.dedupe.late,
    )
    rejects = RejectFile(config.data, config.spool.rejects_bytes_max)
    rejects.open()
    producers = ProducerState(config.data / "producer.json")
    publisher = Publisher(
        directory,
        producers,
        LaneLimits(
            ring_entries_max=limits.ring_entries_max,
            ring_bytes_max=limits.ring_bytes_max,
            batch_bytes_max=config.batch.bytes_max,
            linger_s=config.batch.linger,
            compression=config.batch.compression,
        ),
        counters,
        uplink,
        outbox,
        dedupe,
        lambda batch, result: _keep_reject(rejects, batch, result),
        config.overflow,
    )

    patience = make_patience(limits.timeout, limits.timeout_max)
    registrations = Registrations(config.data)
    registrations.open()
    members = MemberRegistry()
    pushing = assemble_pushes(
        config,
        gateway,
        credentials,
        publisher,
        f"sidecar-{producers.current.producer_id:016x}",
        members,
        bound=lambda: site.address.port or 0,
        tracing=tracing,
    )
    registering = RegisterHandlers(
        registrations,
        gateway,
        required=config.require_registration,
        subscribers=pushing.subscribers.registered,
    )
    given = (publisher, patience, limits.message_bytes_max, registering.check)
    receipts, many, streaming = (
        ReceiptHandlers(Receipts(gateway), patience),
        ManyHandlers(*given),
        StreamHandlers(*given),
    )
    publishing = PublishHandlers(*given, receipts, tracing)
    retrying = RejectRetry(
        rejects,
        publisher,
        partial(find_ids, gateway),
        dedupe.forget,
        timeout_s=limits.timeout,
        late_s=config.dedupe.late,
    )
    rejecting = RejectHandlers(rejects, retrying)
    reading = ReadHandlers(reader := Reader(gateway, uplink), counters)
    subscribers = _subscribers(
        limits,
        gateway,
        credentials,
        directory,
        members,
        counters,
        publisher,
        registering.check,
        tracing,
    )
    topics = TopicHandlers(gateway, directory)
    status = Status(
        uplink=uplink,
        publisher=publisher,
        outbox=outbox,
        rejects=rejects,
        credentials=credentials,
        counters=counters,
        gatekeeper=lambda: gateway.url,
        streams=lambda: subscribers.streams,
        pushes=pushing.pushes,
    )

    async def show_status(_: web.Request) -> web.Response:
        return json_response(status.document())

    app = make_app(
        {
            "publish": publishing.publish,
            "publish_raw": publishing.publish_raw,
            "publish_batch": many.publish_batch,
            "publish_lines": many.publish_lines,
            "publish_stream": streaming.publish_stream,
            "subscribe": subscribers.subscribe,
            "messages": reading.messages,
            "message": reading.message,
            "receipt": receipts.receipt,
            "list_topics": topics.list_topics,
            "create_topic": topics.create_topic,
            "describe_topic": topics.describe_topic,
            "alter_topic": topics.alter_topic,
            "delete_topic": topics.delete_topic,
            "status": show_status,
            "whoami": whoami_handler(gateway),
            "register_publisher": registering.register_publisher,
            "deregister_publisher": registering.deregister_publisher,
            "list_registrations": registering.list_registrations,
            "list_rejects": rejecting.list_rejects,
            "retry_rejects": rejecting.retry_rejects,
            "drop_rejects": rejecting.drop_rejects,
            "retry_reject": rejecting.retry_reject,
            "drop_reject": rejecting.drop_reject,
            **pushing.handlers,
        },
        guard,
        read_app_token(config.app_token),
    )
    registry = new_registry()
    registry.register(StatusCollector(status))
    service = Service(
        "sidecar",
        components=[
            tracing,
            contexts,
            credentials,
            gateway,
            dedupe,
            outbox,
            uplink,
            *pushing.components,
        ],
    )
    add_health_routes(app, service, registry)
    add_vitals(registry, service, contexts)
    front = FastFront(
        publisher,
        guard,
        message_bytes_max=limits.message_bytes_max,
        body_bytes_max=publishing.body_bytes_max,
        patience=patience,
        connections_max=limits.connections_max,
        draining=app.setdefault(DRAINING, asyncio.Event()),
    )
    site = HttpSite(
        "apps",
        app,
        config.listen,
        limits=HttpLimits(body_s_max=BODY_S_MAX, connections_max=limits.connections_max),
        metrics=HttpMetrics(registry),
        # The fast front reads neither tokens nor registrations.
        front=None if config.app_token or config.require_registration else front.wrap,
    )
    service.add(site)
    service.add(front)
    if config.tcp is not None:
        service.add(
            BrokerSite(
                config.tcp,
                publisher,
                reader,
                message_bytes_max=limits.message_bytes_max,
                timeout_s=limits.timeout,
                connections_max=limits.connections_max,
            )
        )
    service.add(LastAnswers(publisher))
    if config.health is not None:
        watched = health_app(service, registry)
        service.add(
            HttpSite("health", watched, config.health, setting="health", serves_while_draining=True)
        )
    service.add_check("tls", contexts.readiness)
    service.add_check("promises", lambda: _readiness(uplink, outbox))
    return Assembly(service, site, uplink, publisher, outbox, pushing.pushes, members)


def _subscribers(
    limits: LimitsConfig,
    gateway: Gateway,
    credentials: CredentialSource,
    directory: Directory,
    members: MemberRegistry,
    counters: Counters,
    publisher: Publisher,
    check: Check,
    tracing: Tracing,
) -> SubscribeHandlers:
    def open_stream(topic: str, start: Start) -> TopicStream:
        return TopicStream(gateway, credentials, topic, start, limits.stream_bytes_max)

    def open_session(membership: Membership) -> MemberSession:
        return MemberSession(gateway, credentials, membership, limits.stream_bytes_max)

    subscribing = Subscribing(
        directory, open_stream, open_session, members, counters, limits.streams_max, tracing
    )
    sockets = SocketHandlers(
        subscribing,
        gateway,
        publisher,
        check,
        message_bytes_max=limits.message_bytes_max,
        timeout_s=limits.timeout,
    )
    return SubscribeHandlers(subscribing, sockets.subscribe)


def _readiness(uplink: Uplink, outbox: Outbox) -> Readiness:
    """Ready while a message that is published with the default `ack` will not be lost."""
    spool_takes = outbox.has_room(0)
    detail = {**uplink.state.document(), "spool_takes_messages": spool_takes}
    if outbox.problem is not None:
        detail["spool_error"] = outbox.problem
    return Readiness(uplink.connected or spool_takes, detail)


def _keep_reject(rejects: RejectFile, batch: Batch, result: AppendResult) -> bool:
    fields = {
        "topic": batch.producer.topic,
        "messages": batch.producer.count,
        "code": result.code,
        "decision_id": result.decision_id,
    }
    try:
        kept = rejects.add(batch, result, time.time_ns() // 1000)
    except OSError as error:
        fields["error"] = str(error)
        log.critical("a refused batch could not be kept", extra={"fields": fields})
        return False
    text = "batch refused after it was accepted" if kept else "reject file full; batch is gone"
    log.warning(text, extra={"fields": fields})
    return kept


def _client(config: SidecarConfig) -> Client:
    oauth = config.oauth
    return Client(
        oauth.issuer, oauth.client_id, oauth.method, oauth.audience, oauth.scope, oauth.key
    )
