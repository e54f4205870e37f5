"""From the core's errors to its answers: the one list. Errors themselves know no HTTP."""

from typing import Final

from core_log.api.admission import NotAdmitted
from core_log.api.intake import BadFrames
from core_log.api.proof_routes import LeafLost, TooManyProofs
from core_log.api.query import BadQuery
from core_log.api.request_body import BadJson, BodyTooLarge, TooManyRequestBytes
from core_log.api.stream_route import TooManyStreams
from core_log.control.channels import (
    BadChannel,
    ChannelChanged,
    ChannelExists,
    TooManyChannels,
    UnknownChannel,
)
from core_log.control.revocations import BadRevocation, TooManyRevocations
from core_log.control.topic_log import UnknownPartition
from core_log.control.topics import BadTopic, TooManyTopics, TopicChanged, TopicExists, UnknownTopic
from core_log.log.log_errors import Damaged, DiskFull, LogClosed, LogError, LogFailed, Overloaded
from core_log.subscriptions.cursor import TooManyRanges
from core_log.subscriptions.subscriptions import (
    BadSubscription,
    NotDurable,
    SubscriptionChanged,
    SubscriptionExists,
    TooManySubscriptions,
    TopicMismatch,
    UnknownSubscription,
)
from core_log.tree.checkpointer import UnknownCheckpoint
from core_log.tree.checkpointing import NoCheckpoint, TooManyWaiters
from core_log.tree.cosignatures import BadCosignature
from core_log.tree.tree import NoSuchLeaf, TreeRefused
from hosting.problems import Problem, ProblemTable

TABLE: Final = ProblemTable(
    {
        NotAdmitted: Problem(403, "not_admitted", "Only gatekeepers may call the core"),
        BadFrames: Problem(400, "bad_frame", "The body is not a sound run of frames"),
        BadJson: Problem(400, "bad_json", "The body is not the JSON that is expected"),
        BadQuery: Problem(400, "bad_query", "The query can't be answered"),
        BodyTooLarge: Problem(413, "too_large", "The body is too large"),
        BadTopic: Problem(400, "bad_topic", "Not a legal topic"),
        UnknownTopic: Problem(404, "unknown_topic", "No such topic"),
        UnknownPartition: Problem(404, "unknown_partition", "No such partition"),
        TopicExists: Problem(409, "topic_exists", "The topic exists with another definition"),
        TopicChanged: Problem(412, "topic_changed", "The topic has changed meanwhile"),
        TooManyTopics: Problem(409, "too_many_topics", "The limit on topics is reached"),
        BadSubscription: Problem(400, "bad_subscription", "Not a legal subscription"),
        UnknownSubscription: Problem(404, "unknown_subscription", "No such subscription"),
        SubscriptionExists: Problem(
            409, "subscription_exists", "The subscription exists with another definition"
        ),
        SubscriptionChanged: Problem(
            412, "subscription_changed", "The subscription has changed meanwhile"
        ),
        TopicMismatch: Problem(409, "topic_mismatch", "The subscription is on another topic"),
        NotDurable: Problem(409, "not_durable", "A memory topic stores nothing"),
        TooManyRanges: Problem(409, "too_many_ranges", "Too many acknowledged ranges"),
        TooManySubscriptions: Problem(
            409, "too_many_subscriptions", "The limit on subscriptions is reached"
        ),
        BadChannel: Problem(400, "bad_channel", "Not a legal channel"),
        UnknownChannel: Problem(404, "unknown_channel", "No such channel"),
        ChannelExists: Problem(409, "channel_exists", "The channel exists with another definition"),
        ChannelChanged: Problem(412, "channel_changed", "The channel has changed meanwhile"),
        TooManyChannels: Problem(409, "too_many_channels", "The limit on channels is reached"),
        BadRevocation: Problem(400, "bad_revocation", "Not a revocation"),
        TooManyRevocations: Problem(
            409, "too_many_revocations", "The limit on revocations is reached"
        ),
        Damaged: Problem(410, "damaged", "These messages were lost to damage"),
        DiskFull: Problem(507, "disk_full", "The disk is full"),
        Overloaded: Problem(503, "overloaded", "Too much is in flight"),
        TooManyRequestBytes: Problem(503, "overloaded", "Too much is in flight"),
        TooManyStreams: Problem(503, "too_many_streams", "The limit on streams is reached"),
        LogClosed: Problem(503, "unavailable", "The log is closing"),
        LogFailed: Problem(503, "storage_failed", "The disk failed under the log"),
        NoCheckpoint: Problem(404, "no_checkpoint", "No checkpoint was signed"),
        UnknownCheckpoint: Problem(404, "unknown_checkpoint", "No such checkpoint is kept"),
        BadCosignature: Problem(400, "bad_cosignature", "Not a cosignature that can be kept"),
        NoSuchLeaf: Problem(404, "unknown_leaf", "The tree has no such leaf"),
        LeafLost: Problem(410, "damaged", "These messages were lost to damage"),
        TooManyProofs: Problem(503, "overloaded", "Too much is in flight"),
        TooManyWaiters: Problem(503, "overloaded", "Too much is in flight"),
        TreeRefused: Problem(503, "tree_refused", "The log is not what was signed"),
        LogError: Problem(500, "log", "The log can't do this"),
    }
)
