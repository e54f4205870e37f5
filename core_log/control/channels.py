"""Channels: named destinations for pushes, each its owner's own. Values and their JSON. Pure."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from core_log.control.json_fields import Fields
from core_log.control.names import take_name
from log_format.limits import NAME_BYTES_MAX

CHANNELS_MAX: Final = 10_000
"""Keeps the control state, which every open reads whole, at some megabytes."""
OWNER_CHANNELS_MAX: Final = 1_000
"""One principal can't use up what is there for all."""
TITLE_BYTES_MAX: Final = 256
_HOST: Final = re.compile(r"[A-Za-z0-9._:-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\]")
"""A host name, an IPv4 or an IPv6 address; whoever connects resolves and judges it."""
_PATH: Final = re.compile(r"/[!-~]{0,2047}")


class ChannelError(Exception):
    """A request about a channel that can't be granted."""


class BadChannel(ChannelError):
    """A channel that is not legal; the message lists every problem."""


class UnknownChannel(ChannelError):
    """The owner has no such channel."""

    def __init__(self, owner: str, channel: str) -> None:
        super().__init__(f"{owner} has no channel {channel!r}; create it with POST /v1/channels")
        self.members = {"channel": channel, "owner": owner}


class ChannelExists(ChannelError):
    """The owner has a channel of this id with another definition."""

    def __init__(self, channel: str, differs: Sequence[str]) -> None:
        super().__init__(
            f"channel {channel!r} exists and differs in {', '.join(differs)}; "
            f"replace it with PUT /v1/channels/{channel}"
        )
        self.members = {"channel": channel, "differs": list(differs)}


class ChannelChanged(ChannelError):
    """The caller's version is not the channel's."""

    def __init__(self, channel: str, version: int) -> None:
        super().__init__(f"channel {channel!r} is at version {version}; read it again")
        self.members = {"channel": channel, "version": version}


class TooManyChannels(ChannelError):
    """A limit on channels is reached."""


@dataclass(frozen=True, slots=True)
class Channel:
    """A destination."""

    owner: str
    id: str
    name: str
    host: str
    port: int
    path: str
    tls: bool
    version: int

    @property
    def key(self) -> tuple[str, str]:
        """Owner and id."""
        return self.owner, self.id


def parse_channel(value: object, owner: str, *, channel: str | None = None) -> Channel:
    """A channel from a request; `channel` is its id where the path names it. Raises BadChannel."""
    fields = Fields(value, BadChannel, what="a channel")
    if channel is not None and "id" in fields and fields.raw("id") != channel:
        fields.problem("id", f"must be {channel!r}, as in the path, or left out")
    parsed = _parse(fields, owner, take_name(fields, "id") if channel is None else channel, 0)
    fields.finish()
    return parsed


def parse_channel_record(value: object) -> Channel:
    """Read what `channel_record` wrote. Raises BadChannel."""
    fields = Fields(value, BadChannel, what="a channel's record")
    owner = fields.text("owner", bytes_max=NAME_BYTES_MAX) or ""
    version = fields.integer("version", 0, least=1)
    parsed = _parse(fields, owner, take_name(fields, "id"), version)
    fields.finish()
    return parsed


def _parse(fields: Fields, owner: str, channel: str, version: int) -> Channel:
    host, path, tls = fields.raw("destination_host"), fields.raw("path"), fields.raw("tls")
    port = fields.optional_integer("destination_port", least=1, most=65_535)
    if not isinstance(host, str) or _HOST.fullmatch(host) is None:
        fields.problem("destination_host", "must be a host name or an address")
    if "destination_port" not in fields:
        fields.problem("destination_port", "is missing")
    if path is not None and (not isinstance(path, str) or _PATH.fullmatch(path) is None):
        fields.problem("path", "must begin with / and hold printable ASCII, at most 2048")
    if tls is not None and not isinstance(tls, bool):
        fields.problem("tls", "must be true or false")
    return Channel(
        owner=owner,
        id=channel,
        name=fields.text("name", bytes_max=TITLE_BYTES_MAX) or channel,
        host=str(host),
        port=port or 0,
        path="/" if path is None else str(path),
        tls=bool(tls),
        version=version,
    )


def channel_json(channel: Channel) -> dict[str, object]:
    """The channel as the wire shows it."""
    return {
        "id": channel.id,
        "name": channel.name,
        "destination_host": channel.host,
        "destination_port": channel.port,
        "path": channel.path,
        "tls": channel.tls,
        "version": channel.version,
    }


def channel_record(channel: Channel) -> dict[str, object]:
    """The channel as the control log keeps it."""
    return {**channel_json(channel), "owner": channel.owner}


def put(
    channels: Mapping[tuple[str, str], Channel],
    wanted: Channel,
    *,
    replaces: bool,
    if_version: int | None,
    version: int,
) -> Channel | None:
    """The channel to record, or None where exactly this one exists.

    Raises ChannelExists where another does and it is not to be replaced.
    """
    existing = channels.get(wanted.key)
    check_version(existing, wanted, if_version)
    if existing is not None:
        if replace(wanted, version=existing.version) == existing:
            return None
        if not replaces:
            have, want = channel_json(existing), channel_json(wanted)
            differs = [name for name in have if name != "version" and have[name] != want[name]]
            raise ChannelExists(wanted.id, differs)
    else:
        of_owner = sum(owner == wanted.owner for owner, _ in channels)
        for count, limit, whose in (
            (of_owner, OWNER_CHANNELS_MAX, wanted.owner),
            (len(channels), CHANNELS_MAX, "this core"),
        ):
            if count >= limit:
                raise TooManyChannels(
                    f"{whose} has {count} channels and the limit is {limit}; delete some"
                )
    return replace(wanted, version=version)


def check_version(existing: Channel | None, wanted: Channel, if_version: int | None) -> None:
    """Raise ChannelChanged unless this is the version that is meant."""
    if if_version is not None and (existing is None or existing.version != if_version):
        raise ChannelChanged(wanted.id, 0 if existing is None else existing.version)
