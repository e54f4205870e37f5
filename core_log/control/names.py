"""The names that owners choose: subscriptions, channels, members. Pure."""

import re
from typing import Final

from core_log.control.json_fields import Fields

NAME_TEXT: Final = "[A-Za-z0-9][A-Za-z0-9._-]{0,127}"
MEMBER_TEXT: Final = "[A-Za-z0-9._-]{1,64}"
_NAME: Final = re.compile(NAME_TEXT)
_MEMBER: Final = re.compile(MEMBER_TEXT)


def is_name(value: object) -> bool:
    """True for what a subscription or a channel may be called: it stands in a path as it is."""
    return isinstance(value, str) and _NAME.fullmatch(value) is not None


def take_name(fields: Fields, key: str) -> str:
    """The name of a subscription or a channel."""
    return _take(fields, key, _NAME)


def take_member(fields: Fields, key: str) -> str:
    """The name of a member."""
    return _take(fields, key, _MEMBER)


def _take(fields: Fields, key: str, pattern: re.Pattern[str]) -> str:
    value = fields.raw(key)
    if isinstance(value, str) and pattern.fullmatch(value) is not None:
        return value
    fields.problem(key, f"must be a name such as mailer, of the form {pattern.pattern}")
    return ""
