"""The one list from a typed error to the answer that callers get."""

from typing import Final

from gatekeeper.api.append import BadAppend
from gatekeeper.api.connections import TooManyConnections
from gatekeeper.errors import (
    AuditUnavailable,
    BadPath,
    BadRequest,
    CoreUnavailable,
    Denied,
    Draining,
    LogForked,
    NoSuchDecision,
    NoSuchRoute,
    NotAnOperator,
    NotFromHere,
    Overloaded,
    OverQuota,
    TooLarge,
    TooSlow,
    WrongMethod,
)
from gatekeeper.identity.authentication_errors import AuthenticationError, IssuerUnavailable
from hosting.problems import Problem, ProblemTable

PROBLEMS: Final = ProblemTable(
    {
        AuthenticationError: Problem(401, "unauthenticated", "The caller is not proven"),
        IssuerUnavailable: Problem(503, "issuer_unavailable", "The token can't be checked now"),
        Denied: Problem(403, "denied", "The policy denies this"),
        BadRequest: Problem(400, "bad_request", "Not a request of this wire"),
        BadPath: Problem(400, "bad_path", "The path is not a plain one"),
        BadAppend: Problem(400, "bad_frame", "Not a sound run of frames"),
        NoSuchRoute: Problem(404, "not_found", "Nothing is served here"),
        WrongMethod: Problem(405, "method_not_allowed", "The path does not take this method"),
        NotAnOperator: Problem(401, "unauthenticated", "Not an operator"),
        NotFromHere: Problem(403, "forbidden", "Not from here"),
        NoSuchDecision: Problem(404, "unknown_decision", "No such decision"),
        TooLarge: Problem(413, "too_large", "The body is over its limit"),
        TooSlow: Problem(408, "request_timeout", "The body did not arrive in time"),
        TooManyConnections: Problem(429, "too_many_connections", "Too many connections"),
        OverQuota: Problem(429, "over_quota", "Over the quota"),
        Overloaded: Problem(503, "overloaded", "The gatekeeper is at a limit"),
        Draining: Problem(503, "draining", "The gatekeeper is stopping"),
        CoreUnavailable: Problem(503, "unavailable", "The core can't be reached"),
        LogForked: Problem(503, "log_forked", "The log contradicts itself"),
        AuditUnavailable: Problem(503, "audit_unavailable", "The decision log can't be written"),
    }
)
