"""Topic names: which are legal, and which are the system's own."""

import re
from typing import Final

from log_format.errors import BadField
from log_format.limits import TOPIC_BYTES_MAX

SYSTEM_PREFIX: Final = "_"
_NAME: Final = re.compile(rf"_?[A-Za-z0-9][A-Za-z0-9._-]{{0,{TOPIC_BYTES_MAX - 1}}}")


def is_system_topic(name: str) -> bool:
    """True for `_audit` and its like: wildcards never match them and clients never write them."""
    return name.startswith(SYSTEM_PREFIX)


def check_topic(name: object) -> str:
    """Return `name` if an app may use it as a topic, else raise BadField that says why."""
    if not isinstance(name, str):
        raise BadField("topic", f"must be a string, not {type(name).__name__}")
    if not name:
        raise BadField("topic", "is empty; give a name such as orders.created")
    if len(name) > TOPIC_BYTES_MAX:
        raise BadField("topic", f"has {len(name)} characters; the limit is {TOPIC_BYTES_MAX}")
    if is_system_topic(name):
        raise BadField("topic", "begins with '_', which is kept for the system's own topics")
    if _NAME.fullmatch(name) is None:
        raise BadField(
            "topic",
            "may hold letters, digits, '.', '_' and '-' and must begin with a letter or digit",
        )
    if ".." in name or name.endswith("."):
        raise BadField("topic", "has an empty segment; put one name between two dots")
    return name


def check_any_topic(name: object) -> str:
    """Like `check_topic`, and allows the system's topics too."""
    if isinstance(name, str) and is_system_topic(name):
        plain = len(name) <= TOPIC_BYTES_MAX and _NAME.fullmatch(name)
        if plain and ".." not in name and not name.endswith("."):
            return name
        raise BadField("topic", "is not a well-formed system topic")
    return check_topic(name)
