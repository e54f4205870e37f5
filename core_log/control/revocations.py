"""Revocations: tokens, clients and certificates that gatekeepers must refuse. Values, pure.

The last revocation of a thing counts. One whose end has passed lifts those before it, so it has to
reach every gatekeeper too: it is kept, and sent, for a day after its end.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal, get_args

from core_log.control.json_fields import Fields
from log_format.limits import NAME_BYTES_MAX

Kind = Literal["token_id", "client", "certificate"]

REVOCATIONS_MAX: Final = 100_000
"""In force at a time: about 20 MB of control state. Give each an end, so that they go again."""
KEPT_AFTER_END_US: Final = 86_400_000_000
"""A gatekeeper that could not reach the core for a day begins anew, with everything in force."""
REASON_BYTES_MAX: Final = 512
"""A sentence for the operator who wonders later."""


class BadRevocation(Exception):
    """Not a revocation; the message lists every problem."""


class TooManyRevocations(Exception):
    """The limit on revocations in force is reached."""


@dataclass(frozen=True, slots=True)
class Revocation:
    """One thing to refuse, from now until `until_us` (None: for ever).

    `version` rises with each revocation, so that a gatekeeper can ask for what is new. `issuer`
    narrows a token id or client to the issuer that named it; None means whoever named it.
    """

    kind: Kind
    value: str
    issuer: str | None
    until_us: int | None
    reason: str | None
    at_us: int
    version: int

    @property
    def key(self) -> tuple[str, str, str | None]:
        """What is revoked: a later revocation of the same takes this one's place."""
        return self.kind, self.value, self.issuer

    def in_force(self, now_us: int) -> bool:
        """False once its end has passed."""
        return self.until_us is None or self.until_us > now_us

    def forgettable(self, now_us: int) -> bool:
        """True once its end has passed for so long that every gatekeeper knows."""
        return not self.in_force(now_us - KEPT_AFTER_END_US)


def parse_revocation(value: object, *, now_us: int, version: int) -> Revocation:
    """A revocation from a request. Raises BadRevocation with every problem in it."""
    fields = Fields(value, BadRevocation, what="a revocation")
    revocation = _parse(fields, at_us=now_us, version=version)
    fields.finish()
    return revocation


def parse_revocation_record(value: object) -> Revocation:
    """Read what `revocation_record` wrote. Raises BadRevocation."""
    fields = Fields(value, BadRevocation, what="a revocation's record")
    at_us = fields.integer("at_us", 0, least=0)
    version = fields.integer("version", 0, least=1)
    revocation = _parse(fields, at_us=at_us, version=version)
    fields.finish()
    return revocation


def _parse(fields: Fields, *, at_us: int, version: int) -> Revocation:
    kind = fields.choice("kind", get_args(Kind))
    value = fields.text("value", bytes_max=NAME_BYTES_MAX)
    for key, given in (("kind", kind), ("value", value)):
        if given is None and key not in fields:
            fields.problem(key, "is missing")
    return Revocation(
        kind=kind or "token_id",
        value=value or "",
        issuer=fields.text("issuer", bytes_max=NAME_BYTES_MAX),
        until_us=fields.optional_integer("until_us", least=0),
        reason=fields.text("reason", bytes_max=REASON_BYTES_MAX),
        at_us=at_us,
        version=version,
    )


def revocation_json(revocation: Revocation) -> dict[str, object]:
    """The revocation as the wire shows it."""
    return {
        "kind": revocation.kind,
        "value": revocation.value,
        "issuer": revocation.issuer,
        "until_us": revocation.until_us,
        "reason": revocation.reason,
        "at_us": revocation.at_us,
    }


def revocation_record(revocation: Revocation) -> dict[str, object]:
    """The revocation as the control log keeps it: all of its fields."""
    return {**revocation_json(revocation), "version": revocation.version}


def newer_than(revocations: Iterable[Revocation], after: int, *, newest: int) -> list[Revocation]:
    """Those with a version above `after`, oldest first.

    An `after` above the newest version comes from another life of this log (a restored backup):
    its owner gets everything.
    """
    if after > newest:
        after = 0
    wanted = [each for each in revocations if each.version > after]
    return sorted(wanted, key=lambda each: each.version)
