"""What can go wrong for an app, as values that know no HTTP.

`problems.py` maps each of these to a status. `members` go into the problem document as they are,
`headers` into the answer's head. Every text names the field, limit or rule, and the next step.
"""

from collections.abc import Mapping


class SidecarError(Exception):
    """The base of everything that an app may be told."""

    def __init__(
        self,
        detail: str,
        *,
        members: Mapping[str, object] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.members: Mapping[str, object] = members or {}
        self.headers: Mapping[str, str] = headers or {}


class BadMessage(SidecarError):
    """A message that breaks a rule of the publish API. Nothing of the request was published."""


class BadBody(SidecarError):
    """A body that is not what the route takes: of everything but a publish."""


class BadQuery(SidecarError):
    """A parameter in the URL or a header that cannot be understood."""

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(f"{name}: {problem}", members={"field": name})


class BadFilter(SidecarError):
    """A filter that is no expression of truth; the members say where it goes wrong."""

    def __init__(self, problem: str, line: int, column: int) -> None:
        super().__init__(
            f"filter: {problem}, at line {line}, column {column}",
            members={"field": "filter", "line": line, "column": column},
        )


class BadRequest(SidecarError):
    """A body that asks for something that cannot be; nothing was changed."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}", members={"field": field})


class BadDestination(SidecarError):
    """A webhook's URL that cannot be understood in one way only."""

    def __init__(self, problem: str, field: str = "push.url") -> None:
        super().__init__(f"{field}: {problem}", members={"field": field})
        self.problem = problem


class ForbiddenDestination(SidecarError):
    """A webhook's URL that this sidecar never calls."""


class UnknownChannel(SidecarError):
    """This app has no channel of that id."""


class ForeignCaller(SidecarError):
    """A request that a web page of another site caused, not the sidecar's own app."""


class NotRegistered(SidecarError):
    """This sidecar takes messages of registered publishers only."""


class BadAppToken(SidecarError):
    """This sidecar wants a token of its app, and this was none."""


class TooLarge(SidecarError):
    """More bytes than a limit allows."""


class UnknownTopic(SidecarError):
    """The topic does not exist, and nothing may create it here."""


class UnknownMessage(SidecarError):
    """No message has this offset."""


class NoReceipt(SidecarError):
    """The log has the message, and no proof of it yet."""

    def __init__(self, detail: str) -> None:
        super().__init__(detail, headers=retry_after(1.0))


class UnknownSubscription(SidecarError):
    """No such subscription of this owner, or it was deleted."""


class SubscriptionConflict(SidecarError):
    """A subscription that cannot be so: it exists otherwise, or its topic is not stored."""


class Denied(SidecarError):
    """The gatekeeper's policy does not allow it. Asking again does not help."""


class OverQuota(SidecarError):
    """The principal has used up its quota for now. Ask again after the time given."""


class UplinkDown(SidecarError):
    """No gatekeeper can be reached; the message was never sent. Ask again later."""


class LogDiskFull(SidecarError):
    """The core's disk is full and it took nothing; it goes on by itself when there is room."""


class LogBusy(SidecarError):
    """The core has too much under way and took nothing. Ask again after the time given."""


class RingFull(SidecarError):
    """The partition's ring stayed full until the time was up; the message was never sent."""


class SpoolIsFull(SidecarError):
    """The spool cannot take the message; it was never sent. Ask again later."""


class DiskRefuses(SidecarError):
    """The sidecar's own disk does not take what has to be kept. Nothing was changed."""


class Stopping(SidecarError):
    """The sidecar stops, and takes no more of this request."""


class InDoubt(SidecarError):
    """Sent, and no answer came in time. The sidecar goes on until it knows."""


class BeingRetried(SidecarError):
    """Somebody else retries the same reject at this moment."""


class HeldBack(SidecarError):
    """A reject that would overtake an older one of its partition."""


class Rejected(SidecarError):
    """The log refused the batch for good, for a reason that is no fault of the app."""


class Damaged(SidecarError):
    """These messages were lost to damage in the log; the members say where to go on."""


class GatekeeperRefused(SidecarError):
    """A gatekeeper's answer that makes no sense to this sidecar."""


def retry_after(seconds: float) -> dict[str, str]:
    """The header that says when to come back. HTTP counts whole seconds; at least one."""
    return {"Retry-After": str(max(1, int(seconds + 0.999)))}
