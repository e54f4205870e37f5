"""Puts the parts of pushing together: from the configuration to handlers and components."""

import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from aiohttp import web

from hosting.lifecycle import Component, StartError
from hosting.trace_context import TRACEPARENT, TRACESTATE, parse_trace_context
from hosting.tracing import Tracing
from sidecar.api.http_channels import ChannelHandlers
from sidecar.api.http_subscribers import SubscriberHandlers
from sidecar.api.http_subscriptions import SubscriptionHandlers
from sidecar.config import PushConfig, SidecarConfig
from sidecar.delivery.filter import Filter
from sidecar.delivery.member import MemberSession, Membership
from sidecar.delivery.member_registry import MemberRegistry
from sidecar.delivery.record import Record
from sidecar.publish.batch import Ack
from sidecar.publish.message import Message
from sidecar.publish.publisher import Publisher
from sidecar.push.destination import DestinationGuard, is_this_machines
from sidecar.push.destinations import Destinations
from sidecar.push.push_plan import Plan
from sidecar.push.push_queue import Verdict
from sidecar.push.push_settings import Push
from sidecar.push.push_worker import Means, PushWorker
from sidecar.push.pushes import Pushes
from sidecar.push.reruns import Reruns
from sidecar.push.subscription_desk import SubscriptionDesk
from sidecar.push.subscription_wire import SubscriptionWire
from sidecar.push.webhook_client import WebhookClient
from sidecar.push.webhook_secrets import WebhookSecrets
from sidecar.uplink.credentials import CredentialSource
from sidecar.uplink.gateway import Gateway

BURY_S_MAX: Final = 30.0
"""How long a dead letter's publish waits for its outcome before it is tried again."""

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True, slots=True)
class PushParts:
    """What the service needs of it."""

    components: tuple[Component, ...]
    handlers: dict[str, Handler]
    pushes: Pushes
    subscribers: SubscriberHandlers


def assemble_pushes(
    config: SidecarConfig,
    gateway: Gateway,
    credentials: CredentialSource,
    publisher: Publisher,
    member: str,
    members: MemberRegistry,
    bound: Callable[[], int],
    tracing: Tracing,
) -> PushParts:
    """The parts; nothing is sent yet. `member` is this sidecar's name among its replicas, `bound`
    the port that it listens on."""
    push = config.push
    wire = SubscriptionWire(gateway)
    destinations = Destinations(wire)
    client = WebhookClient(
        guard_of(config, bound), connections_max=push.connections_max, context=_context(push)
    )
    secrets = WebhookSecrets(push.secrets)

    async def send(record: Record, wanted: Push, headers: dict[str, str], body: bytes) -> Verdict:
        target = await destinations.of(wanted)
        for name, value in wanted.headers.items():
            headers[name] = value if isinstance(value, str) else secrets.text(value.secret_file)
        parent = parse_trace_context(headers.get(TRACEPARENT), headers.get(TRACESTATE))
        with tracing.span(f"deliver {record.topic}", "consumer", parent) as context:
            if context is not None:
                headers[TRACEPARENT] = context.traceparent
            return await client.post(target, wanted.method, headers, body, wanted.timeout_ms / 1000)

    async def bury(letter: Message) -> None:
        await publisher.publish(letter, Ack.CORE, BURY_S_MAX)

    def make_worker(plan: Plan) -> PushWorker:
        text = plan.settings.filter
        session = MemberSession(
            gateway,
            credentials,
            Membership(plan.name, member, plan.owner),
            config.limits.stream_bytes_max,
        )
        means = Means(
            session,
            send,
            bury,
            None if text is None else Filter(text).select,
            lambda wanted: [secrets.signing_key(name) for name in wanted.secret_files],
            push.held_messages_max,
            push.held_bytes_max,
        )
        return PushWorker(plan, means)

    pushes = Pushes(wire, make_worker)
    desk = SubscriptionDesk(wire, destinations, client, secrets, Filter)
    subscriptions = SubscriptionHandlers(wire, desk, Reruns(wire), pushes, members)
    channels = ChannelHandlers(wire, destinations, client)
    subscribers = SubscriberHandlers(wire, desk, lambda: pushes.known)
    return PushParts(
        (client, pushes) if push.enabled else (client,),
        {
            "create_subscription": subscriptions.create_subscription,
            "list_subscriptions": subscriptions.list_subscriptions,
            "describe_subscription": subscriptions.describe_subscription,
            "alter_subscription": subscriptions.alter_subscription,
            "delete_subscription": subscriptions.delete_subscription,
            "pause_subscription": subscriptions.pause_subscription,
            "resume_subscription": subscriptions.resume_subscription,
            "seek_subscription": subscriptions.seek_subscription,
            "ack_subscription": subscriptions.ack_subscription,
            "nack_subscription": subscriptions.nack_subscription,
            "redrive_subscription": subscriptions.redrive_subscription,
            "replay_subscription": subscriptions.replay_subscription,
            "list_channels": channels.list_channels,
            "create_channel": channels.create_channel,
            "describe_channel": channels.describe_channel,
            "put_channel": channels.put_channel,
            "delete_channel": channels.delete_channel,
            "register_subscriber": subscribers.register_subscriber,
            "deregister_subscriber": subscribers.deregister_subscriber,
        },
        pushes,
        subscribers,
    )


def guard_of(config: SidecarConfig, bound: Callable[[], int]) -> DestinationGuard:
    """What may be called, with every port of Sidegate's that this sidecar knows of."""
    own = [config.listen, config.tcp, config.health]
    urls = [urlsplit(url) for url in (*config.gatekeepers, config.oauth.issuer)]
    endpoints = [(url.hostname or "", url.port or 443) for url in urls]
    # A gatekeeper's or issuer's port on this machine is theirs, by whichever address.
    ports = {
        *(each.port for each in own if each is not None and each.port),
        *(port for _, port in endpoints),
    }
    return DestinationGuard(
        config.push.allow,
        own_ports=lambda: {*ports, bound()},
        own_endpoints=endpoints,
        is_local=is_this_machines,
    )


def _context(push: PushConfig) -> ssl.SSLContext | None:
    if push.ca is None:
        return None
    try:
        return ssl.create_default_context(cafile=push.ca)
    except (OSError, ssl.SSLError) as error:
        raise StartError(f"push.ca: {push.ca} cannot be used: {error}") from error
