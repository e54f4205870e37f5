"""Reruns: messages that are delivered again, to one push subscription and to nobody else.

`redrive` takes the subscription's dead letters, `replay` a range of its topic. Both make another
subscription with the same push, which reads that range and then deletes itself (`pushes.py`): so a
rerun is authorised, audited, retried, shared by replicas and seen like every other delivery, and
the subscription's own place stays where it is.
"""

from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

import msgspec

from sidecar.errors import BadRequest, SidecarError, SubscriptionConflict, UnknownSubscription
from sidecar.push.push_settings import Rerun, Settings, read_settings, stored_settings
from sidecar.push.subscription_types import ReplayRequest, wire_place
from sidecar.push.subscription_wire import Document, SubscriptionWire

RERUN_NAME_MAX: Final = 100
"""Longer names are shortened in the names of their reruns."""


@dataclass(frozen=True, slots=True)
class Started:
    """A rerun that was begun, or was under way already. None: there is nothing to do."""

    subscription: str | None
    topic: str
    messages_max: int
    fresh: bool


class Reruns:
    """Keeps no state. Belongs to the event loop."""

    def __init__(self, wire: SubscriptionWire) -> None:
        self._wire = wire

    async def redrive(self, name: str, *, everything: bool, owner: str | None) -> Started:
        """Deliver the subscription's dead letters again, to it alone.

        A subscription of its own reads them, so that this survives whatever the first delivery
        does; it ends with the letters that are there now.
        """
        parent, settings = await self._pushing(name, owner)
        if settings.dead_letter is None:
            raise SubscriptionConflict(
                f"{name} has no dead letters: its dead_letter is null",
                members={"reason": "no_dead_letter"},
            )
        topic = settings.dead_letter.topic
        rows = await self._wire.offsets(topic)
        done = {} if everything else settings.redriven
        begins = {at: max(done.get(str(at), 0), row["start_offset"]) for at, row in rows.items()}
        until = {str(at): int(row["end_offset"]) for at, row in rows.items()}
        started = await self._rerun(
            parent,
            settings,
            Rerun("redrive", name, until),
            topic,
            begins,
            _derived_name(name, "redrive"),
        )
        if started.fresh:
            moved = msgspec.structs.replace(settings, redriven=until)
            await self._wire.alter(
                name,
                {"settings": stored_settings(moved)},
                version=int(parent["version"]),
                owner=owner,
            )
        return started

    async def replay(self, name: str, wanted: ReplayRequest, owner: str | None) -> Started:
        """Deliver a range of its topic again, to it alone; its own place stays where it is."""
        parent, settings = await self._pushing(name, owner)
        topic = parent["topic"]
        begins = await self._edge(topic, wanted.start, "from", wanted.partition)
        ends = await self._edge(topic, wanted.to, "to", wanted.partition)
        until = {str(at): ends[at] for at in ends}
        if wanted.partition is not None:
            if wanted.partition not in ends:
                raise BadRequest("partition", f"the topic has {len(ends)} of them, from 0 on")
            until = {str(wanted.partition): ends[wanted.partition]}
            begins = {
                at: begin if at == wanted.partition else max(begin, ends[at])
                for at, begin in begins.items()
            }
        word = sha256(f"{begins}{until}".encode()).hexdigest()[:8]
        rerun = Rerun("replay", name, until)
        return await self._rerun(
            parent, settings, rerun, topic, begins, _derived_name(name, f"replay-{word}")
        )

    async def delete(self, name: str, owner: str | None) -> None:
        """Delete a subscription, and its reruns with it.

        A rerun that is left behind all the same, because no gatekeeper answers any more, is
        deleted by the owner's sidecars as soon as they see it (`pushes.py`).
        """
        await self._wire.delete(name, owner)
        with suppress(SidecarError):
            for each in (await self._wire.list(owner))["subscriptions"]:
                if parent_of(each) == name:
                    with suppress(UnknownSubscription):
                        await self._wire.delete(each["name"], owner)

    async def _pushing(self, name: str, owner: str | None) -> tuple[Document, Settings]:
        found = await self._wire.get(name, owner)
        settings = read_settings(found.get("settings") or {})
        if not found.get("push") or settings.push is None:
            raise SubscriptionConflict(
                f"{name} has no push: its members take messages by themselves; seek it instead",
                members={"reason": "not_push"},
            )
        if settings.rerun is not None:
            raise SubscriptionConflict(
                f"{name} is a rerun of {settings.rerun.of} itself",
                members={"reason": "is_rerun"},
            )
        return found, settings

    async def _edge(
        self, topic: str, text: str, field: str, partition: int | None
    ) -> dict[int, int]:
        """A place as an offset for each partition, within what is there now."""
        place = wire_place(text, field, partition)
        time_us = place.get("time_us") if isinstance(place, dict) else None
        rows = await self._wire.offsets(topic, time_us)
        if time_us is not None:
            return {at: int(row["offset"]) for at, row in rows.items()}
        if place == "earliest":
            return {at: int(row["start_offset"]) for at, row in rows.items()}
        if place == "latest":
            return {at: int(row["end_offset"]) for at, row in rows.items()}
        if len(rows) > 1 and partition is None:
            raise BadRequest("partition", f"is needed with offset: the topic has {len(rows)}")
        offset = next(iter(place["offsets"].values()))
        return {
            at: min(max(offset, int(row["start_offset"])), int(row["end_offset"]))
            for at, row in rows.items()
        }

    async def _rerun(
        self,
        parent: Document,
        settings: Settings,
        rerun: Rerun,
        topic: str,
        begins: dict[int, int],
        name: str,
    ) -> Started:
        count = sum(max(0, end - begins.get(int(at), 0)) for at, end in rerun.until.items())
        if not count:
            return Started(None, topic, 0, fresh=False)
        again = msgspec.structs.replace(
            settings, rerun=rerun, redriven={}, fire_and_forget=False, registered=False
        )
        document = {
            "name": name,
            "topic": topic,
            "from": {"offsets": {str(at): begin for at, begin in begins.items()}},
            "mode": parent["mode"],
            "lease_ms": parent["lease_ms"],
            "push": True,
            "settings": stored_settings(again),
        }
        try:
            status, _ = await self._wire.create(document, parent["owner"])
        except SubscriptionConflict as error:
            if error.members.get("reason") != "subscription_exists":
                raise
            status = 200
        return Started(name, topic, count, fresh=status == 201)


def parent_of(definition: Document) -> str | None:
    """Whose rerun a subscription is; None where it is none, or not understood."""
    rerun = (definition.get("settings") or {}).get("rerun")
    parent = rerun.get("of") if isinstance(rerun, dict) else None
    return parent if isinstance(parent, str) else None


def _derived_name(name: str, suffix: str) -> str:
    if len(name) > RERUN_NAME_MAX:
        name = f"{name[:80]}-{sha256(name.encode()).hexdigest()[:16]}"
    return f"{name}.{suffix}"
