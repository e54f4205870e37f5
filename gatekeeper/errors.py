"""What can go wrong for a caller, as types. Each knows its code and its words, none knows HTTP;
`gatekeeper/api/problems.py` has the one list that turns them into answers.
"""

from collections.abc import Mapping
from math import ceil
from typing import Any

from gatekeeper.audit.decisions import Ruling


class GateError(Exception):
    """Base of all that the gatekeeper refuses. `members` and `headers` go into the answer."""

    def __init__(
        self,
        detail: str,
        *,
        members: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.members: Mapping[str, Any] = members or {}
        self.headers: Mapping[str, str] = headers or {}


class Denied(GateError):
    """The policy says no. The caller may quote the decision id to whoever keeps the policy."""

    def __init__(self, ruling: Ruling) -> None:
        super().__init__(
            ruling.text,
            members={
                "decision_id": ruling.id_text,
                "reason": ruling.reason,
                "action": ruling.action,
                "topic": ruling.topic,
            },
        )
        self.ruling = ruling


class BadRequest(GateError):
    """The request is not one that this wire has. The message names the field and what it may be."""


class BadPath(GateError):
    """The request's target could be read in two ways, so it is not read at all."""


class NoSuchRoute(GateError):
    """No route of the table has this path."""


class WrongMethod(GateError):
    """The path exists, the method does not."""


class NotAnOperator(GateError):
    """The admin port was asked without an operator's secret."""


class NotFromHere(GateError):
    """The admin port was asked by, or through, something that is not a command here."""


class NoSuchDecision(GateError):
    """No decision with that id is remembered."""


class TooLarge(GateError):
    """A body above its limit; the message names the limit."""


class TooSlow(GateError):
    """A body that did not arrive in time."""


class Retryable(GateError):
    """Something that passes. The answer says when to try again."""

    def __init__(self, detail: str, retry_after_s: float, **members: Any) -> None:
        super().__init__(
            detail, members=members, headers={"Retry-After": str(max(1, ceil(retry_after_s)))}
        )


class OverQuota(Retryable):
    """The principal has used up what the policy gives it, on this gatekeeper."""


class Overloaded(Retryable):
    """This gatekeeper has as much in its hands as it may."""


class Draining(Retryable):
    """This gatekeeper is about to stop."""


class CoreUnavailable(Retryable):
    """The core can't be reached, or did not answer in time."""


class AuditUnavailable(Retryable):
    """The decision log can't be written and the configuration says to fail closed."""


class LogForked(Retryable):
    """The core shows a tree that does not extend the last one, and the configuration says to refuse
    appends."""
