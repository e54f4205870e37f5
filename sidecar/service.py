"""Puts the parts together: from a configuration to a service that can be run."""

from dataclasses import dataclass

from aiohttp import web

from hosting.lifecycle import Readiness, Service
from hosting.metrics import HttpMetrics, new_registry
from hosting.tls import ReloadingContexts, TlsFiles
from hosting.web import HttpSite, add_health_routes
from sidecar.app import json_response, make_app
from sidecar.config import SidecarConfig
from sidecar.counters import Counters
from sidecar.credentials import CredentialSource
from sidecar.directory import Directory
from sidecar.gateway import Gateway
from sidecar.guard import Guard
from sidecar.http_publish import PublishHandlers
from sidecar.http_read import ReadHandlers
from sidecar.http_topics import TopicHandlers
from sidecar.lane import LaneLimits
from sidecar.oauth import Client
from sidecar.producer import ProducerState
from sidecar.publisher import Publisher
from sidecar.reader import Reader
from sidecar.start import Start
from sidecar.status import Status, StatusCollector
from sidecar.topic_stream import TopicStream
from sidecar.uplink import Uplink


@dataclass(frozen=True, slots=True)
class Assembly:
    """A service and the parts of it that others may want to look at."""

    service: Service
    site: HttpSite
    uplink: Uplink
    publisher: Publisher


def build(config: SidecarConfig) -> Service:
    """The sidecar as `config` describes it. Files are read, nothing is sent yet."""
    return assemble(config).service


def assemble(config: SidecarConfig) -> Assembly:
    """The same, with its parts."""
    limits, counters = config.limits, Counters()
    files = TlsFiles(config.tls.certificate, config.tls.key, config.tls.ca)
    contexts = ReloadingContexts(files)
    credentials = CredentialSource(files, contexts, _client(config), issuer_ca=config.oauth.ca)
    gateway = Gateway(config.gatekeepers, config.gatekeeper_id, credentials)
    directory = Directory(gateway)
    publisher = Publisher(
        directory,
        ProducerState(config.data / "producer.json"),
        LaneLimits(
            ring_entries_max=limits.ring_entries_max,
            ring_bytes_max=limits.ring_bytes_max,
            batch_bytes_max=config.batch.bytes_max,
            linger_s=config.batch.linger,
        ),
        counters,
    )
    uplink = Uplink(
        gateway,
        request_bytes_max=limits.request_bytes_max,
        requests_in_flight_max=limits.requests_in_flight_max,
        on_settled=publisher.settled,
        on_state=publisher.link_changed,
    )
    publisher.attach(uplink)

    def open_stream(topic: str, start: Start) -> TopicStream:
        return TopicStream(gateway, credentials, topic, start, limits.stream_bytes_max)

    publishing = PublishHandlers(
        publisher,
        message_bytes_max=limits.message_bytes_max,
        timeout_s=limits.timeout,
        timeout_s_max=limits.timeout_max,
    )
    reading = ReadHandlers(Reader(gateway), directory, open_stream, counters, limits.streams_max)
    topics = TopicHandlers(gateway, directory)
    status = Status(
        uplink, publisher, credentials, counters, lambda: gateway.url, lambda: reading.streams
    )

    async def show_status(_: web.Request) -> web.Response:
        return json_response(status.document())

    app = make_app(
        {
            "publish": publishing.publish,
            "subscribe": reading.subscribe,
            "messages": reading.messages,
            "message": reading.message,
            "list_topics": topics.list_topics,
            "create_topic": topics.create_topic,
            "describe_topic": topics.describe_topic,
            "alter_topic": topics.alter_topic,
            "delete_topic": topics.delete_topic,
            "status": show_status,
        },
        Guard.of(config.allowed_hosts),
    )
    registry = new_registry()
    registry.register(StatusCollector(uplink, publisher, counters, lambda: reading.streams))
    service = Service("sidecar", components=[contexts, credentials, gateway, uplink])
    add_health_routes(app, service, registry)
    site = HttpSite("apps", app, config.listen, metrics=HttpMetrics(registry))
    service.add(site)
    service.add_check("tls", contexts.readiness)
    service.add_check("uplink", lambda: _uplink_readiness(uplink))
    return Assembly(service, site, uplink, publisher)


def _uplink_readiness(uplink: Uplink) -> Readiness:
    state = uplink.state
    return Readiness(state.connected, state.document())


def _client(config: SidecarConfig) -> Client:
    oauth = config.oauth
    return Client(
        oauth.issuer, oauth.client_id, oauth.method, oauth.audience, oauth.scope, oauth.key
    )
