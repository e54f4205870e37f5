"""What apps ask of subscriptions, checked and passed on: create, alter, register.

Everything that can be refused is refused here, before anything is kept: the destination, the
secrets' files, the dead letters' topic, a second subscription of the same webhook. Knows no HTTP.
"""

from collections.abc import Callable
from hashlib import sha256

import msgspec
from msgspec import UnsetType

from log_format.errors import BadField
from log_format.topic import check_topic
from sidecar.errors import (
    BadDestination,
    BadRequest,
    Denied,
    SidecarError,
    SubscriptionConflict,
    UnknownSubscription,
    UnknownTopic,
)
from sidecar.push.destinations import Destinations, target_of_url
from sidecar.push.push_settings import (
    DEAD_SUFFIX,
    DeadLetter,
    Push,
    Settings,
    check_push,
    check_retry,
    read_settings,
    stored_settings,
)
from sidecar.push.subscription_types import (
    SubscriberRequest,
    SubscriptionChange,
    SubscriptionRequest,
    wire_place,
)
from sidecar.push.subscription_wire import Document, SubscriptionWire, check_name
from sidecar.push.webhook_client import WebhookClient
from sidecar.push.webhook_secrets import SecretUnusable, WebhookSecrets


class SubscriptionDesk:
    """Keeps no state. Belongs to the event loop."""

    def __init__(
        self,
        wire: SubscriptionWire,
        destinations: Destinations,
        client: WebhookClient,
        secrets: WebhookSecrets,
        check_filter: Callable[[str], object],
    ) -> None:
        self._wire = wire
        self._destinations = destinations
        self._client = client
        self._secrets = secrets
        self._check_filter = check_filter

    async def create(self, wanted: SubscriptionRequest) -> tuple[int, Document]:
        """Create; 201, or 200 where exactly this one exists."""
        check_name(wanted.name)
        topic = _topic(wanted.topic, "topic")
        mode = None if isinstance(wanted.mode, UnsetType) else wanted.mode
        if mode == "fire_and_forget" and wanted.push is None:
            raise BadRequest("mode", "fire_and_forget is for push; add push, or leave it out")
        if wanted.filter is not None:
            self._check_filter(wanted.filter)
        settings = Settings(
            push=wanted.push,
            retry=wanted.retry,
            filter=wanted.filter,
            fire_and_forget=mode == "fire_and_forget",
        )
        settings = await self._checked(settings, topic, wanted.dead_letter)
        if settings.push is not None:
            await self._refuse_second(wanted.name, topic, settings, wanted.owner)
        document: Document = {
            "name": wanted.name,
            "topic": topic,
            "from": wire_place(wanted.start, "from"),
            "push": settings.push is not None,
            "settings": stored_settings(settings),
        }
        if mode is not None:
            document["mode"] = "ordered" if mode == "fire_and_forget" else mode
        if not isinstance(wanted.lease_ms, UnsetType):
            document["lease_ms"] = wanted.lease_ms
        return await self._wire.create(document, wanted.owner)

    async def alter(self, name: str, wanted: SubscriptionChange, owner: str | None) -> Document:
        """Change what is given; nothing is changed where any of it is refused."""
        current = await self._wire.get(name, owner)
        settings = read_settings(current.get("settings") or {})
        change: Document = {}
        if not isinstance(wanted.mode, UnsetType):
            forget = wanted.mode == "fire_and_forget"
            settings = msgspec.structs.replace(settings, fire_and_forget=forget)
            change["mode"] = "ordered" if forget else wanted.mode
        if not isinstance(wanted.lease_ms, UnsetType):
            change["lease_ms"] = wanted.lease_ms
        if not isinstance(wanted.filter, UnsetType):
            if wanted.filter is not None:
                self._check_filter(wanted.filter)
            settings = msgspec.structs.replace(settings, filter=wanted.filter)
        if not isinstance(wanted.push, UnsetType):
            settings = msgspec.structs.replace(settings, push=wanted.push)
        if not isinstance(wanted.retry, UnsetType):
            settings = msgspec.structs.replace(settings, retry=wanted.retry)
        letters = wanted.dead_letter
        if isinstance(letters, UnsetType) and settings.dead_letter is not None:
            letters = settings.dead_letter
        elif isinstance(letters, UnsetType) and current.get("push"):
            letters = None
        settings = await self._checked(settings, current["topic"], letters)
        change["push"] = settings.push is not None
        change["settings"] = stored_settings(settings)
        return await self._wire.alter(name, change, version=int(current["version"]), owner=owner)

    async def register(self, wanted: SubscriberRequest) -> tuple[int, Document]:
        """Register a webhook; the same again changes nothing."""
        topic, target = _topic(wanted.topic, "topic"), self._target(wanted.url)
        push = Push(url=target, method=wanted.method)
        settings = Settings(push=push, fire_and_forget=True, registered=True)
        settings = await self._checked(settings, topic, None, field="url")
        name = subscriber_name(topic, target, wanted.method)
        await self._refuse_second(name, topic, settings, None)
        document = {
            "name": name,
            "topic": topic,
            "from": "latest",
            "mode": "ordered",
            "push": True,
            "settings": stored_settings(settings),
        }
        return await self._wire.create(document)

    async def deregister(self, name: str) -> None:
        """Forget a webhook; the same again changes nothing."""
        try:
            found = await self._wire.get(name)
        except UnknownSubscription:
            return
        if not (found.get("settings") or {}).get("registered"):
            raise SubscriptionConflict(
                f"{name} was not registered; DELETE /subscriptions/{name} instead",
                members={"reason": "not_registered"},
            )
        await self._wire.delete(name)

    def name_of(self, topic: str, url: str, method: str) -> str:
        """The name of the subscription that a registered webhook has."""
        return subscriber_name(_topic(topic, "topic"), self._target(url), method)

    def _target(self, url: str) -> str:
        try:
            return target_of_url(url).url
        except BadDestination as error:
            raise BadDestination(error.problem, "url") from error

    async def _checked(
        self,
        settings: Settings,
        topic: str,
        letters: DeadLetter | str | UnsetType | None,
        field: str = "push.url",
    ) -> Settings:
        """The settings with everything in its final form, or the reason why not."""
        push = settings.push
        if push is None:
            return msgspec.structs.replace(settings, dead_letter=None)
        check_push(push)
        check_retry(settings.retry)
        try:
            target = await self._destinations.of(push)
            await self._client.check(target)
        except BadDestination as error:
            raise BadDestination(error.problem, field) from error
        if push.url is not None:
            push = msgspec.structs.replace(push, url=target.url)
        self._check_secrets(push)
        dead = await self._dead_letter(settings, topic, letters)
        return msgspec.structs.replace(settings, push=push, dead_letter=dead)

    def _check_secrets(self, push: Push) -> None:
        try:
            for name in push.secret_files:
                self._secrets.signing_key(name)
            for value in push.headers.values():
                if not isinstance(value, str):
                    self._secrets.text(value.secret_file)
        except SecretUnusable as error:
            raise BadRequest("push", str(error)) from error

    async def _dead_letter(
        self, settings: Settings, topic: str, wanted: DeadLetter | str | UnsetType | None
    ) -> DeadLetter | None:
        if wanted is None or settings.fire_and_forget:
            return None
        if isinstance(wanted, UnsetType):
            name = topic + DEAD_SUFFIX
        else:
            name = wanted if isinstance(wanted, str) else wanted.topic
        name = _topic(name, "dead_letter")
        if name == topic:
            raise BadRequest("dead_letter", "must be another topic, or letters would go in circles")
        access = await self._wire.may("publish", name)
        if access.get("allowed") is not True:
            kept = {each: access[each] for each in ("reason", "rule") if access.get(each)}
            raise Denied(f"dead_letter: {access.get('detail')}", members=kept)
        try:
            await self._wire.topic(name, create=True)
        except UnknownTopic as error:
            raise BadRequest(
                "dead_letter",
                f"there is no topic {name}; create it, name another, or set null to drop messages "
                "whose attempts are used up",
            ) from error
        return DeadLetter(name)

    async def _refuse_second(
        self, name: str, topic: str, settings: Settings, owner: str | None
    ) -> None:
        """The same webhook twice on one topic would get every message twice."""
        push = settings.push
        if push is None:
            return
        for other in (await self._wire.list(owner))["subscriptions"]:
            if other["name"] == name or other["topic"] != topic or not other.get("push"):
                continue
            try:
                theirs = read_settings(other.get("settings"))
            except SidecarError:
                continue
            same = (
                theirs.push is not None
                and theirs.rerun is None
                and (theirs.push.url, theirs.push.channel) == (push.url, push.channel)
                and theirs.push.method == push.method
                and theirs.filter == settings.filter
            )
            if same:
                raise SubscriptionConflict(
                    f"{other['name']} sends {topic} to the same destination already; it would get "
                    "every message twice. Use that one, or delete it first",
                    members={"reason": "subscriber_exists", "subscription": other["name"]},
                )


def subscriber_name(topic: str, url: str, method: str) -> str:
    """The same for the same webhook of the same topic, on every sidecar."""
    return "hook-" + sha256(f"{topic}\0{method}\0{url}".encode()).hexdigest()[:32]


def _topic(name: str, field: str) -> str:
    try:
        return check_topic(name)
    except BadField as error:
        raise BadRequest(field, str(error).removeprefix("topic: ")) from error
