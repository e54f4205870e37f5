"""Topics as JSON: what the wire sends and what the control log keeps. Pure."""

from collections.abc import Callable
from typing import get_args

from core_log.control.json_fields import INTEGER_MAX, Fields
from core_log.control.topics import (
    PARTITIONS_MAX,
    RETENTION_FIELDS,
    BadTopic,
    Change,
    Definition,
    Delivery,
    Retention,
    Storage,
    Strategy,
    Topic,
)
from log_format.errors import BadField
from log_format.topic import check_any_topic, check_topic


def parse_definition(value: object) -> Definition:
    """A definition of an app's topic. Raises BadTopic with every problem in it."""
    fields = Fields(value, BadTopic, what="a topic")
    definition = _definition(fields, check_topic)
    fields.finish()
    return definition


def parse_change(value: object) -> Change:
    """A change. Raises BadTopic with every problem in it."""
    fields = Fields(value, BadTopic, what="a change of a topic")
    for fixed in ("name", "storage"):
        if fixed in fields:
            fields.raw(fixed)
            fields.problem(fixed, "is fixed when the topic is created; create another topic")
    change = Change(
        partitions=fields.optional_integer("partitions", least=1, most=PARTITIONS_MAX),
        strategy=fields.choice("strategy", get_args(Strategy)),
        retention=_retention_change(fields),
        delivery=fields.choice("delivery", get_args(Delivery)),
    )
    fields.finish()
    return change


def topic_json(topic: Topic) -> dict[str, object]:
    """The topic as the wire shows it, without the offsets that only the log knows."""
    definition = topic.definition
    return {
        "name": definition.name,
        "partitions": definition.partitions,
        "strategy": definition.strategy,
        "retention": {
            "age_ms": definition.retention.age_ms,
            "bytes": definition.retention.bytes,
        },
        "storage": definition.storage,
        "delivery": definition.delivery,
        "created_us": topic.created_us,
        "version": topic.version,
    }


def topic_record(topic: Topic) -> dict[str, object]:
    """The topic as the control log keeps it: all of its fields."""
    return {**topic_json(topic), "first_offsets": list(topic.first_offsets)}


def parse_topic_record(value: object) -> Topic:
    """Read what `topic_record` wrote. Raises BadTopic."""
    fields = Fields(value, BadTopic, what="a topic's record")
    definition = _definition(fields, check_any_topic)
    created_us = fields.integer("created_us", 0, least=0)
    version = fields.integer("version", 0, least=1)
    first_offsets = fields.raw("first_offsets")
    if (
        not isinstance(first_offsets, list)
        or len(first_offsets) != definition.partitions
        or not all(isinstance(offset, int) and offset >= 0 for offset in first_offsets)
    ):
        fields.problem("first_offsets", "must hold one offset per partition")
        first_offsets = []
    fields.finish()
    return Topic(definition, created_us, version, tuple(first_offsets))


def _definition(fields: Fields, check_name: Callable[[object], str]) -> Definition:
    name = ""
    try:
        name = check_name(fields.raw("name"))
    except BadField as error:
        fields.problem("name", str(error).removeprefix("topic: "))
    definition = Definition(
        name=name,
        partitions=fields.integer("partitions", 1, least=1, most=PARTITIONS_MAX),
        strategy=fields.choice("strategy", get_args(Strategy)) or "key",
        retention=_retention(fields) or Retention(),
        storage=fields.choice("storage", get_args(Storage)) or "disk",
        delivery=fields.choice("delivery", get_args(Delivery)) or "broadcast",
    )
    if definition.storage == "memory" and definition.retention != Retention():
        fields.problem("retention", "a memory topic stores nothing; leave it out")
    return definition


def _retention_change(fields: Fields) -> dict[str, int | None]:
    """The limits that are named, as in RFC 7396: null lifts one, an absent one stays."""
    inner = fields.nested("retention")
    if inner is None:
        return {}
    change = {
        name: inner.optional_integer(name, least=1, most=INTEGER_MAX)
        for name in RETENTION_FIELDS
        if name in inner
    }
    inner.close()
    return change


def _retention(fields: Fields) -> Retention | None:
    inner = fields.nested("retention")
    if inner is None:
        return None
    retention = Retention(
        age_ms=inner.optional_integer("age_ms", least=1, most=INTEGER_MAX),
        bytes=inner.optional_integer("bytes", least=1, most=INTEGER_MAX),
    )
    inner.close()
    return retention
