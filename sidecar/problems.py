"""The one list from a typed error to the answer that apps get."""

from typing import Final

from hosting.problems import Problem, ProblemTable
from sidecar.errors import (
    BadAppToken,
    BadBody,
    BadDestination,
    BadFilter,
    BadMessage,
    BadQuery,
    BadRequest,
    BeingRetried,
    Damaged,
    Denied,
    DiskRefuses,
    ForbiddenDestination,
    ForeignCaller,
    GatekeeperRefused,
    InDoubt,
    LogBusy,
    LogDiskFull,
    NotRegistered,
    OverQuota,
    Rejected,
    RingFull,
    SpoolIsFull,
    Stopping,
    SubscriptionConflict,
    TooLarge,
    UnknownChannel,
    UnknownMessage,
    UnknownSubscription,
    UnknownTopic,
    UplinkDown,
)

PROBLEMS: Final = ProblemTable(
    {
        BadMessage: Problem(400, "bad_message", "Not a message that can be published"),
        BadBody: Problem(400, "bad_body", "The body cannot be understood"),
        BadQuery: Problem(400, "bad_parameter", "A parameter cannot be understood"),
        BadFilter: Problem(400, "bad_filter", "The filter cannot be understood"),
        BadRequest: Problem(400, "bad_request", "A field cannot be understood"),
        BadDestination: Problem(400, "bad_destination", "Not a URL that can be called"),
        ForbiddenDestination: Problem(
            403, "forbidden_destination", "This sidecar does not call that destination"
        ),
        ForeignCaller: Problem(403, "foreign_caller", "Only this sidecar's own app may call"),
        NotRegistered: Problem(403, "not_registered", "Publishers must register first"),
        BadAppToken: Problem(401, "bad_app_token", "The app's token is missing or wrong"),
        TooLarge: Problem(413, "too_large", "Over a size limit"),
        UnknownTopic: Problem(404, "unknown_topic", "No such topic"),
        UnknownMessage: Problem(404, "unknown_message", "No such message"),
        UnknownChannel: Problem(404, "unknown_channel", "No such channel"),
        UnknownSubscription: Problem(404, "unknown_subscription", "No such subscription"),
        SubscriptionConflict: Problem(409, "subscription_conflict", "It cannot be so"),
        Denied: Problem(403, "denied", "The policy denies this"),
        OverQuota: Problem(429, "over_quota", "Over the quota"),
        UplinkDown: Problem(503, "uplink_down", "The log cannot be reached; nothing was sent"),
        LogDiskFull: Problem(503, "disk_full", "The log's disk is full; nothing was taken"),
        LogBusy: Problem(503, "overloaded", "The log has too much to do; nothing was taken"),
        RingFull: Problem(503, "ring_full", "Too many messages wait; this one was not sent"),
        SpoolIsFull: Problem(503, "spool_full", "The spool has no room; nothing was taken"),
        DiskRefuses: Problem(503, "sidecar_disk", "The sidecar's disk takes nothing; as before"),
        Stopping: Problem(503, "stopping", "The sidecar stops; the rest was not taken"),
        InDoubt: Problem(504, "in_doubt", "Sent, and not answered in time"),
        Damaged: Problem(410, "damaged", "These messages were lost to damage"),
        GatekeeperRefused: Problem(502, "bad_gateway", "A gatekeeper's answer is not understood"),
        BeingRetried: Problem(409, "being_retried", "Somebody else retries it just now"),
        Rejected: Problem(502, "rejected", "The log refused the batch"),
    }
)
