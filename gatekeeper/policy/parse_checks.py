"""`quotas` and `tests`: how much callers may send, and what the file says of itself.

Nodes in, document values out, problems noted. May import `reading`, `parse_callers`, `parse_rules`
and below.
"""

import re
from typing import Final, cast

from gatekeeper.policy import reading
from gatekeeper.policy.document import (
    LIMIT_NAMES,
    ClaimValue,
    Example,
    LimitName,
    Principal,
    Quota,
)
from gatekeeper.policy.nodes import Items, Node, Text
from gatekeeper.policy.parse_callers import (
    DEFAULT_NAME,
    Names,
    claim_name,
    issuer_name,
    owner_name,
    spiffe_id,
)
from gatekeeper.policy.parse_rules import action
from gatekeeper.policy.problem import Problems, shown
from hosting.units import parse_bytes
from log_format.errors import BadField
from log_format.topic import check_any_topic

UNLIMITED: Final = "unlimited"
LIMIT_MAX: Final = 1e12
"""A terabyte a second: whoever means more means `unlimited`."""

_RATE: Final = re.compile(r"[0-9]{1,15}(\.[0-9]{1,9})?")
_COUNT: Final = re.compile(r"[0-9]{1,15}")
_INTEGER: Final = re.compile(r"-?(0|[1-9][0-9]{0,17})")
_EXAMPLE_KEYS: Final = {
    "as": True, "issuer": False, "claims": False, "scopes": False,
    "do": True, "on": True, "owner": False, "expect": True,
}  # fmt: skip


def quotas(
    node: Node | None, names: Names, problems: Problems
) -> tuple[Quota | None, tuple[Quota, ...]]:
    """`quotas`: the default, and what principals and groups have instead."""
    if node is None:
        return None, ()
    default = None
    found = []
    for key, value in reading.entries(node, "quotas", "names to limits", problems):
        where = f"quotas.{key.value}"
        given = reading.fields(value, where, dict.fromkeys(LIMIT_NAMES, False), problems) or {}
        limits = []
        for name, limit_node in given.items():
            limit = _limit(name, limit_node, f"{where}.{name}", problems)
            limits.append((cast("LimitName", name), limit))
        quota = Quota(key.value, tuple(limits), key.line)
        if key.value == DEFAULT_NAME:
            default = quota
        elif key.value in names.principals or key.value in names.groups:
            found.append(quota)
        else:
            hint = problems.hint(key.value, names.principals | names.groups | {DEFAULT_NAME})
            hint = hint or "; quotas are for default, principals and groups"
            problems.add(key.line, "quotas", f"unknown name {shown(key.value)}{hint}")
    return default, tuple(found)


def _limit(name: str, node: Node, where: str, problems: Problems) -> float | None:
    value = reading.text(node, where, problems)
    if value is None or value.value == UNLIMITED:
        return None
    parse = {"messages_per_s": _rate, "bytes_per_s": parse_bytes, "streams": _count}[name]
    limit = reading.parsed(value, where, parse, problems)
    if limit is not None and not 0 < limit <= LIMIT_MAX:
        problems.add(value.line, where, "must be more than 0 (deny forbids) and sane, or unlimited")
    return None if limit is None else float(limit)


def _rate(value: str) -> float:
    if _RATE.fullmatch(value) is None:
        raise ValueError(f"must be a number such as 200 or 0.5, or unlimited, not {shown(value)}")
    return float(value)


def _count(value: str) -> int:
    if _COUNT.fullmatch(value) is None:
        raise ValueError(f"must be a whole number, or unlimited, not {shown(value)}")
    return int(value)


def examples(
    node: Node | None, names: Names, principals: tuple[Principal, ...], problems: Problems
) -> tuple[Example, ...]:
    """`tests`: questions with the answers that they must get."""
    if node is None:
        return ()
    by_name = {principal.name: principal for principal in principals}
    found = []
    for place, item in enumerate(reading.items(node, "tests", "tests", problems)):
        where = f"tests[{place}]"
        given = reading.fields(item, where, _EXAMPLE_KEYS, problems)
        if given is not None:
            example = _example(given, item.line, where, names, by_name, problems)
            found += [] if example is None else [example]
    return tuple(found)


def _example(
    given: dict[str, Node],
    line: int,
    where: str,
    names: Names,
    principals: dict[str, Principal],
    problems: Problems,
) -> Example | None:
    caller = _caller(given.get("as"), f"{where}.as", names, problems)
    issuer = None
    if "issuer" in given:
        issuer = issuer_name(given["issuer"], f"{where}.issuer", names.issuers, problems)
    own = principals[caller].issuer if caller in principals else None
    if own is not None and issuer not in (None, own):
        problems.add(line, f"{where}.issuer", f"{caller} has its tokens from {own}")
    claims = _claims(given.get("claims"), f"{where}.claims", problems)
    scopes: tuple[Text, ...] = ()
    if "scopes" in given:
        scopes = reading.texts(given["scopes"], f"{where}.scopes", "scopes", problems)
    unsaid = "issuer" not in given and own is None and len(names.issuers) != 1
    if (claims or scopes) and unsaid and caller is not None:
        problems.add(line, where, "needs issuer: claims and scopes come from a named issuer")
    do = on = expect = None
    owner = ""
    if "do" in given:
        asked = reading.text(given["do"], f"{where}.do", problems)
        do = None if asked is None else action(asked, f"{where}.do", problems)
    if "on" in given:
        on = reading.parsed(given["on"], f"{where}.on", _topic, problems)
    if "owner" in given:
        named = reading.text(given["owner"], f"{where}.owner", problems)
        owner = (named and owner_name(named, f"{where}.owner", names, problems)) or ""
        if do not in (None, "share"):
            problems.add(line, f"{where}.owner", "belongs to do: share")
    if "expect" in given:
        answer = reading.one_of("allow", "deny")
        expect = reading.parsed(given["expect"], f"{where}.expect", answer, problems)
    if caller is None or do is None or on is None or expect is None:
        return None
    return Example(
        caller,
        issuer,
        claims,
        tuple(s.value for s in scopes),
        do,
        on,
        expect == "allow",
        line,
        owner,
    )


def _caller(node: Node | None, where: str, names: Names, problems: Problems) -> str | None:
    value = None if node is None else reading.text(node, where, problems)
    if value is None or value.value in names.principals:
        return None if value is None else value.value
    if value.value.startswith("spiffe:"):
        return reading.parsed(value, where, spiffe_id, problems)
    if value.value in names.groups:
        problems.add(value.line, where, f"{shown(value.value)} is a group; name one of its members")
        return None
    hint = problems.hint(value.value, names.principals) or "; name a principal or a SPIFFE id"
    problems.add(value.line, where, f"unknown principal {shown(value.value)}{hint}")
    return None


def _topic(value: str) -> str:
    try:
        return check_any_topic(value)
    except BadField as error:
        raise ValueError(f"must be one topic's name: {error}") from error


def _claims(
    node: Node | None, where: str, problems: Problems
) -> tuple[tuple[str, ClaimValue], ...]:
    if node is None:
        return ()
    found: list[tuple[str, ClaimValue]] = []
    for name, value in reading.entries(node, where, "claims to values", problems):
        claim_name(name, where, problems)
        item_where = f"{where}.{name.value}"
        if isinstance(value, Items):
            several = (reading.text(item, item_where, problems) for item in value.items)
            found.append((name.value, tuple(_as_json(item) for item in several if item)))
        else:
            single = reading.text(value, item_where, problems)
            found += [] if single is None else [(name.value, _as_json(single))]
    return tuple(found)


def _as_json(item: Text) -> str | int | bool:
    """A claim as a token would carry it: 42 is a number, "42" is text."""
    if not item.plain:
        return item.value
    if item.value in ("true", "false"):
        return item.value == "true"
    return int(item.value) if _INTEGER.fullmatch(item.value) else item.value
