"""From what a push names (a URL or a channel) to the target that is called.

A channel may be changed while subscriptions use it: it is asked for again after a short while.
"""

import time
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final

from sidecar.errors import BadDestination, BadRequest
from sidecar.push.destination import Target, parse_target
from sidecar.push.push_settings import Push
from sidecar.push.subscription_wire import SubscriptionWire

CHANNEL_FRESH_S: Final = 5.0
"""How long a channel is used before it is asked for again."""
CHANNELS_MAX: Final = 1_000
"""As many as an owner may have."""

target_of_url = lru_cache(4096)(parse_target)
"""URLs are parsed once, not for each message."""


def target_of_channel(channel: Mapping[str, Any]) -> Target:
    """The target that a channel names, or BadDestination that names the channel's field."""
    host, port = str(channel["destination_host"]), int(channel["destination_port"])
    scheme = "https" if channel.get("tls") else "http"
    if any(each in host for each in "/?#@[]"):
        raise BadDestination("must be a host or an address, nothing else", "destination_host")
    shown = f"[{host}]" if ":" in host else host
    path = str(channel.get("path") or "/")
    if not path.startswith("/"):
        raise BadDestination("must begin with /", "path")
    try:
        return parse_target(f"{scheme}://{shown}:{port}{path}")
    except BadDestination as error:
        raise BadDestination(error.problem, "destination_host") from error


class Destinations:
    """Looks targets up. Belongs to the event loop."""

    def __init__(self, wire: SubscriptionWire, clock: Callable[[], float] = time.monotonic) -> None:
        self._wire = wire
        self._clock = clock
        self._channels: dict[str, tuple[float, Target]] = {}

    async def of(self, push: Push) -> Target:
        """Where `push` goes now."""
        if push.url is not None:
            return target_of_url(push.url)
        if push.channel is None:
            raise BadRequest("push", "give exactly one of url and channel")
        now_s = self._clock()
        known = self._channels.get(push.channel)
        if known is not None and known[0] > now_s:
            return known[1]
        target = target_of_channel(await self._wire.channel(push.channel))
        if len(self._channels) >= CHANNELS_MAX:
            self._channels.clear()
        self._channels[push.channel] = now_s + CHANNEL_FRESH_S, target
        return target

    def forget(self, channel: str) -> None:
        """It was changed through this sidecar."""
        self._channels.pop(channel, None)
