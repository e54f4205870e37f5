"""A policy file as typed values: what it says, before anything is looked up.

Made by `parse` only, which has checked every name and number. Pure values; lines are kept so that
a decision can be traced to the file.
"""

from dataclasses import dataclass
from typing import Final, Literal, get_args

from gatekeeper.identity.trust import IssuerSettings
from gatekeeper.policy.pattern import Pattern

Action = Literal["publish", "subscribe", "replay", "share", "admin", "audit"]
ACTIONS: Final[tuple[Action, ...]] = get_args(Action)

LimitName = Literal["messages_per_s", "bytes_per_s", "streams"]
LIMIT_NAMES: Final[tuple[LimitName, ...]] = get_args(LimitName)

SUBSCRIBE_LOOKBACK_S: Final = 600.0
"""How far back `subscribe` alone reaches by default: a subscriber that was away for as long as a
restart or a short outage takes loses nothing, and history still needs `replay`."""


@dataclass(frozen=True, slots=True)
class Issuer:
    """Who may make tokens."""

    settings: IssuerSettings
    line: int

    @property
    def name(self) -> str:
        """What the policy calls it."""
        return self.settings.name


@dataclass(frozen=True, slots=True)
class Principal:
    """A name for callers of whom all these conditions hold; None and () mean any."""

    name: str
    spiffe: str | None
    issuer: str | None
    client_id: str | None
    claims: tuple[tuple[str, str], ...]
    line: int

    @property
    def conditions(self) -> int:
        """How many must hold: more is more specific."""
        single = (self.spiffe, self.issuer, self.client_id)
        return sum(value is not None for value in single) + len(self.claims)


@dataclass(frozen=True, slots=True)
class Named:
    """A principal or a group, by name. The two share one set of names."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Claim:
    """Callers whose token, made by that issuer, has the claim with the value or a list with it."""

    issuer: str
    name: str
    value: str

    def __str__(self) -> str:
        return f"claim:{self.issuer}:{self.name}={self.value}"


@dataclass(frozen=True, slots=True)
class Scope:
    """Callers whose token, made by that issuer, has the scope."""

    issuer: str
    scope: str

    def __str__(self) -> str:
        return f"scope:{self.issuer}:{self.scope}"


Subject = Named | Claim | Scope


@dataclass(frozen=True, slots=True)
class Group:
    """A named who-list. Groups may hold groups; never, however far round, themselves."""

    name: str
    members: tuple[Subject, ...]
    line: int


@dataclass(frozen=True, slots=True)
class Grant:
    """One action of a topics entry. `max_age_s` bounds a replay, `owners` names those whose
    subscriptions are shared; None is unlimited."""

    action: Action
    who: tuple[Subject, ...]
    max_age_s: float | None
    line: int
    owners: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class TopicEntry:
    """One entry under `topics`."""

    pattern: Pattern
    grants: tuple[Grant, ...]
    line: int


@dataclass(frozen=True, slots=True)
class Deny:
    """One entry under `deny`. It wins over every grant."""

    id: str
    who: tuple[Subject, ...]
    do: tuple[Action, ...]
    on: tuple[Pattern, ...]
    reason: str
    line: int


@dataclass(frozen=True, slots=True)
class Quota:
    """One entry under `quotas`: the limits that it sets. None is unlimited; absent is inherited."""

    name: str
    limits: tuple[tuple[LimitName, float | None], ...]
    line: int


ClaimValue = str | int | bool | tuple[str | int | bool, ...]


@dataclass(frozen=True, slots=True)
class Example:
    """One entry under `tests`: what somebody asks, and what the answer must be.

    `caller` is a principal's name or a SPIFFE id; the rest adds to what the principal's conditions
    already say of its token. `owner` is whose subscription it asks for, where it asks to share.
    """

    caller: str
    issuer: str | None
    claims: tuple[tuple[str, ClaimValue], ...]
    scopes: tuple[str, ...]
    do: Action
    on: str
    allowed: bool
    line: int
    owner: str = ""


@dataclass(frozen=True, slots=True)
class Document:
    """A whole policy file. `sha256` is of the file's bytes and names it in every decision."""

    sha256: bytes
    subscribe_lookback_s: float
    issuers: tuple[Issuer, ...]
    principals: tuple[Principal, ...]
    groups: tuple[Group, ...]
    topics: tuple[TopicEntry, ...]
    denies: tuple[Deny, ...]
    default_quota: Quota | None
    quotas: tuple[Quota, ...]
    examples: tuple[Example, ...]
