"""The one table that maps every route of :8443 to what it needs. A route without one is closed.

The application is built from this table and from nothing else, so a path that is not here can't
be reached, whatever the core serves behind it. Pure data and functions; no HTTP library.
"""

import re
from dataclasses import dataclass
from enum import Enum
from typing import Final

from gatekeeper.policy.decide import Question
from log_format.topic import is_system_topic


class Needs(Enum):
    """What a caller needs for a route. Every one of them needs an authenticated caller first."""

    PUBLISH = "publish on each frame's topic"
    HISTORY = "replay on the topic, or subscribe with a look back (audit on a system topic)"
    STREAM = "subscribe on the topic, or as HISTORY where it begins in the past"
    OWN = "nothing more for one's own; share on the topic for another's"
    SUBSCRIPTION = "subscribe on the subscription's topic; of another's, share besides"
    PLACE = "as SUBSCRIPTION, and as HISTORY where it begins in the past"
    ANY = "any action on the topic"
    PROOF = "any action on the topic; between two trees nothing more"
    LISTED = "nothing more: the list shows the topics on which the caller may do anything"
    ADMIN = "admin on the topic"
    CALLER = "nothing more: the answer is about the caller, or about the service"


@dataclass(frozen=True, slots=True)
class Route:
    """One route: its name is the handler's, its path may hold the `{name}` of something."""

    name: str
    method: str
    path: str
    needs: Needs
    query: frozenset[str] = frozenset()


_ONE: Final = "/v1/subscriptions/{name}"
_OWNER: Final = frozenset({"owner"})

ROUTES: Final = (
    Route("append", "POST", "/v1/append", Needs.PUBLISH),
    Route(
        "read",
        "GET",
        "/v1/read",
        Needs.HISTORY,
        frozenset({"topic", "partition", "offset", "max_bytes", "wait_ms"}),
    ),
    Route("stream", "GET", "/v1/stream", Needs.STREAM),
    Route("list_topics", "GET", "/v1/topics", Needs.LISTED),
    Route("create_topic", "POST", "/v1/topics", Needs.ADMIN),
    Route("describe_topic", "GET", "/v1/topics/{name}", Needs.ANY, frozenset({"create", "ahead"})),
    Route("alter_topic", "PATCH", "/v1/topics/{name}", Needs.ADMIN),
    Route("delete_topic", "DELETE", "/v1/topics/{name}", Needs.ADMIN),
    Route("offsets", "GET", "/v1/topics/{name}/offsets", Needs.ANY, frozenset({"time_us"})),
    Route(
        "list_subscriptions",
        "GET",
        "/v1/subscriptions",
        Needs.OWN,
        frozenset({"owner", "after", "wait_ms"}),
    ),
    Route("create_subscription", "POST", "/v1/subscriptions", Needs.PLACE, _OWNER),
    Route("describe_subscription", "GET", _ONE, Needs.OWN, _OWNER),
    Route("alter_subscription", "PATCH", _ONE, Needs.SUBSCRIPTION, _OWNER),
    Route("delete_subscription", "DELETE", _ONE, Needs.SUBSCRIPTION, _OWNER),
    Route("pause_subscription", "POST", f"{_ONE}/pause", Needs.SUBSCRIPTION, _OWNER),
    Route("resume_subscription", "POST", f"{_ONE}/resume", Needs.SUBSCRIPTION, _OWNER),
    Route("seek_subscription", "POST", f"{_ONE}/seek", Needs.PLACE, _OWNER),
    Route("ack_subscription", "POST", f"{_ONE}/ack", Needs.SUBSCRIPTION, _OWNER),
    Route("nack_subscription", "POST", f"{_ONE}/nack", Needs.SUBSCRIPTION, _OWNER),
    Route("list_channels", "GET", "/v1/channels", Needs.CALLER),
    Route("create_channel", "POST", "/v1/channels", Needs.CALLER),
    Route("describe_channel", "GET", "/v1/channels/{name}", Needs.CALLER),
    Route("replace_channel", "PUT", "/v1/channels/{name}", Needs.CALLER),
    Route("delete_channel", "DELETE", "/v1/channels/{name}", Needs.CALLER),
    Route(
        "checkpoint",
        "GET",
        "/v1/checkpoint",
        Needs.CALLER,
        frozenset({"wait_leaf", "cosigned", "wait_ms"}),
    ),
    Route(
        "proof",
        "GET",
        "/v1/proof",
        Needs.PROOF,
        frozenset({"topic", "partition", "offset", "size", "from", "to"}),
    ),
    Route("status", "GET", "/v1/status", Needs.CALLER),
    Route("whoami", "GET", "/v1/whoami", Needs.CALLER),
    Route("access", "GET", "/v1/access", Needs.CALLER, frozenset({"action", "topic", "owner"})),
)

_NAME: Final = "{name}"
_WITH_NAME: Final = re.compile(r"(/v1/(?:topics|subscriptions|channels)/)([^/]+)(/[a-z]+|)")
_PATH: Final = re.compile(r"/|(?:/[A-Za-z0-9_.~-]+)+")
"""Segments of unreserved characters: no route and no topic name needs percent-encoding, so `%2F`,
`%2e`, `//`, a backslash, a fragment, `*` and a whole URL are refused instead of interpreted."""


def questions_for(needs: Needs, topic: str, *, from_latest: bool = False) -> tuple[Question, ...]:
    """What the policy is asked; one yes is enough."""
    if needs is Needs.ADMIN:
        return ("admin",)
    if needs is Needs.PUBLISH:
        return ("publish",)
    if needs in (Needs.STREAM, Needs.HISTORY, Needs.SUBSCRIPTION, Needs.PLACE):
        if is_system_topic(topic):
            return ("audit",)
        from_latest = from_latest or needs is Needs.SUBSCRIPTION
        return ("subscribe",) if from_latest else ("replay", "subscribe")
    return ("any",)


def find_route(method: str, path: str) -> tuple[Route, str]:
    """The route of a request and the name in its path (empty where it has none).

    Raises KeyError with the methods that the path takes: none for a path that is not in the table.
    """
    by_method, name = _FIXED.get(path), ""
    if by_method is None:
        match = _WITH_NAME.fullmatch(path)
        by_method = None if match is None else _NAMED.get(f"{match[1]}{_NAME}{match[3]}")
        if match is None or by_method is None:
            raise KeyError
        name = match[2]
    route = by_method.get(method)
    if route is None:
        raise KeyError(*sorted(by_method))
    return route, name


def _by_method(*, named: bool) -> dict[str, dict[str, Route]]:
    """The routes that have a name in their path, or those that have none, by path and method."""
    found: dict[str, dict[str, Route]] = {}
    for route in ROUTES:
        if (_NAME in route.path) is named:
            found.setdefault(route.path, {})[route.method] = route
    return found


_FIXED: Final = _by_method(named=False)
_NAMED: Final = _by_method(named=True)


def plain_path(raw_target: str) -> bool:
    """True for a request target that can mean one thing only, to us and to whoever is behind us."""
    if raw_target in _FIXED:
        return True
    path, _mark, _query = raw_target.partition("?")
    if _PATH.fullmatch(path) is None:
        return False
    return not any(segment in (".", "..") for segment in path.split("/"))
