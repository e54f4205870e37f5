"""The members of one subscription: who is there, and since when each was heard of.

Pure: sessions, names and the time of a clock that only runs. A session is one stream of one
member; what members hold is the business of `ordered` and `fcfs`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

MEMBERS_MAX: Final = 1_000
"""Members of a subscription: each join looks at all of them, and no topic has more partitions."""
IN_FLIGHT_MAX: Final = 100_000
"""Messages that a member may hold: a third of a second of the fastest reader's work, and it bounds
what has to be given again when the member is lost."""


@dataclass(slots=True)
class Member:
    """One stream of one consumer. `leaving` is set once it has begun to give back what it has."""

    session: int
    name: str
    since_us: int
    heard: float
    in_flight: int = 0
    leaving: bool = False

    @property
    def full(self) -> bool:
        """True while it may be given nothing more."""
        return self.in_flight >= IN_FLIGHT_MAX


class Members:
    """All members, by session and by name. Invariant: no name has two sessions."""

    def __init__(self) -> None:
        self._by_session: dict[int, Member] = {}
        self._by_name: dict[str, Member] = {}

    def __len__(self) -> int:
        return len(self._by_session)

    def __iter__(self) -> Iterator[Member]:
        return iter(self._by_session.values())

    def get(self, session: int) -> Member | None:
        """A member by its session."""
        return self._by_session.get(session)

    def named(self, name: str) -> Member | None:
        """A member by its name."""
        return self._by_name.get(name)

    def add(self, member: Member) -> None:
        """A member has come. Whoever had its name must have been removed."""
        self._by_session[member.session] = member
        self._by_name[member.name] = member

    def remove(self, session: int) -> Member | None:
        """A member has gone; None where it was not there."""
        member = self._by_session.pop(session, None)
        if member is not None:
            del self._by_name[member.name]
        return member

    def heard(self, session: int, now: float) -> None:
        """A sign of life."""
        member = self._by_session.get(session)
        if member is not None:
            member.heard = now

    def silent(self, now: float, lease_s: float) -> list[Member]:
        """Those whose lease has passed."""
        return [each for each in self if each.heard + lease_s <= now]

    def next_silent(self, lease_s: float) -> float | None:
        """When the first lease passes, if nobody says anything; None without members."""
        return min((each.heard for each in self), default=0.0) + lease_s if self else None
