"""Subscriptions as JSON: what the wire sends and what the control log keeps. Pure."""

from collections.abc import Mapping
from typing import cast, get_args

import orjson

from core_log.api.stream_messages import FromOffsets, FromTime, Start, take_start
from core_log.control.json_fields import Fields
from core_log.control.names import take_name
from core_log.subscriptions.subscriptions import (
    LEASE_MS,
    LEASE_MS_MAX,
    LEASE_MS_MIN,
    SETTINGS_BYTES_MAX,
    Alteration,
    BadSubscription,
    Mode,
    Subscription,
    Wanted,
)
from log_format.errors import BadField
from log_format.limits import NAME_BYTES_MAX
from log_format.topic import check_any_topic


def parse_wanted(value: object, *, name: str | None = None) -> tuple[Wanted, str | None]:
    """A new subscription and the owner that it names, if any. Raises BadSubscription.

    `name` is given where it stands elsewhere, as in the `create` of a stream's open.
    """
    fields = Fields(value, BadSubscription, what="a subscription")
    owner = None
    if name is None:
        name = take_name(fields, "name")
        owner = fields.text("owner", bytes_max=NAME_BYTES_MAX)
    wanted = Wanted(
        name=name,
        topic=_topic(fields),
        start=take_start(fields, "from"),
        mode=fields.choice("mode", get_args(Mode)),
        lease_ms=fields.integer("lease_ms", LEASE_MS, least=LEASE_MS_MIN, most=LEASE_MS_MAX),
        push=_flag(fields, "push") or False,
        settings=_settings(fields) or b"{}",
    )
    fields.finish()
    return wanted, owner


def parse_alteration(value: object) -> Alteration:
    """A change. Raises BadSubscription with every problem in it."""
    fields = Fields(value, BadSubscription, what="a change of a subscription")
    for fixed, instead in (
        ("name", "create another one"),
        ("owner", "create another one"),
        ("topic", "create another one"),
        ("from", "move it with seek"),
        ("paused", "use pause and resume"),
    ):
        if fixed in fields:
            fields.raw(fixed)
            fields.problem(fixed, f"is fixed when the subscription is created; {instead}")
    change = Alteration(
        mode=fields.choice("mode", get_args(Mode)),
        lease_ms=fields.optional_integer("lease_ms", least=LEASE_MS_MIN, most=LEASE_MS_MAX),
        push=_flag(fields, "push"),
        settings=_settings(fields),
    )
    fields.finish()
    return change


def subscription_json(subscription: Subscription) -> dict[str, object]:
    """The subscription as the wire shows it."""
    return {
        "name": subscription.name,
        "owner": subscription.owner,
        "topic": subscription.topic,
        "mode": subscription.mode,
        "from": start_json(subscription.start),
        "lease_ms": subscription.lease_ms,
        "paused": subscription.paused,
        "push": subscription.push,
        "settings": orjson.Fragment(subscription.settings),
        "created_us": subscription.created_us,
        "version": subscription.version,
    }


def subscription_record(subscription: Subscription) -> dict[str, object]:
    """The subscription as the control log keeps it: all of its fields."""
    shown = subscription_json(subscription)
    return {**shown, "id": subscription.id, "lows": list(subscription.lows)}


def parse_subscription_record(value: object) -> Subscription:
    """Read what `subscription_record` wrote. Raises BadSubscription."""
    fields = Fields(value, BadSubscription, what="a subscription's record")
    lows = fields.raw("lows")
    if not isinstance(lows, list) or not all(isinstance(low, int) and low >= 0 for low in lows):
        fields.problem("lows", "must be a list of offsets")
        lows = []
    subscription = Subscription(
        id=fields.integer("id", 0, least=1),
        owner=fields.text("owner", bytes_max=NAME_BYTES_MAX) or "",
        name=take_name(fields, "name"),
        topic=_topic(fields),
        mode=fields.choice("mode", get_args(Mode)) or "ordered",
        start=take_start(fields, "from"),
        lease_ms=fields.integer("lease_ms", LEASE_MS, least=LEASE_MS_MIN, most=LEASE_MS_MAX),
        push=_flag(fields, "push") or False,
        settings=_settings(fields) or b"{}",
        lows=tuple(lows),
        created_us=fields.integer("created_us", 0, least=0),
        version=fields.integer("version", 0, least=1),
        paused=_flag(fields, "paused") or False,
    )
    fields.finish()
    return subscription


def start_json(start: Start) -> object:
    """A place to begin, as `from` says it."""
    match start:
        case FromOffsets(offsets):
            return {"offsets": {str(partition): offset for partition, offset in offsets.items()}}
        case FromTime(time_us):
            return {"time_us": time_us}
        case _:
            return start


def _topic(fields: Fields) -> str:
    try:
        return check_any_topic(fields.raw("topic"))
    except BadField as error:
        fields.problem("topic", str(error).removeprefix("topic: "))
        return ""


def _flag(fields: Fields, key: str) -> bool | None:
    value = fields.raw(key)
    if key not in fields:
        return None
    if not isinstance(value, bool):
        fields.problem(key, "must be true or false")
        return None
    return value


def _settings(fields: Fields) -> bytes | None:
    """Canonical JSON, so that equal settings are equal bytes."""
    value = fields.raw("settings")
    if value is None:
        return None
    if not isinstance(value, Mapping):
        fields.problem("settings", "must be an object")
        return None
    settings = orjson.dumps(cast("object", value), option=orjson.OPT_SORT_KEYS)
    if len(settings) > SETTINGS_BYTES_MAX:
        fields.problem("settings", f"must be at most {SETTINGS_BYTES_MAX} bytes of JSON")
        return None
    return settings
