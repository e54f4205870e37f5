"""Every operation of the HTTP API, once: the router and the OpenAPI pages are made from this."""

from typing import Any, Final

from sidecar import api_types
from sidecar.message import BatchItem, PublishRequest
from sidecar.operation import BAD, DENIED, DOWN, LINES, SSE, Operation, Result
from sidecar.subscription_operations import SUBSCRIPTION_OPERATIONS

_PUBLISH_PROBLEMS: Final = {
    **BAD,
    **DENIED,
    413: Result("A message is over limits.message_bytes_max"),
    429: Result("Over the quota; see Retry-After"),
    **DOWN,
    504: Result("Sent, and no answer in time: the sidecar goes on trying"),
}
_PUBLISHER: Final = {
    "Sidegate-Publisher": "The publisher_id of POST /register/publisher; needed where "
    "require_registration is set"
}
_NO_TOPIC: Final = {404: Result("No such topic")}

OPERATIONS: Final = (
    Operation(
        "publish",
        "POST",
        "/publish",
        "publish",
        "Publish one message and learn where it is in the log.",
        {
            200: Result("It is in the log", api_types.Published),
            202: Result("The sidecar keeps it and will send it", api_types.Accepted),
            **_PUBLISH_PROBLEMS,
        },
        query=api_types.PublishQuery,
        body=PublishRequest,
        headers=_PUBLISHER,
    ),
    Operation(
        "publish_raw",
        "POST",
        "/publish/{topic}",
        "publish",
        "Publish the body as one message, of any content type; CloudEvents are understood.",
        {
            200: Result("It is in the log", api_types.Published),
            202: Result("The sidecar keeps it and will send it", api_types.Accepted),
            **_PUBLISH_PROBLEMS,
        },
        query=api_types.RawPublishQuery,
        body=Any,
        body_media=("application/json", "application/octet-stream", "application/cloudevents+json"),
        headers=_PUBLISHER,
    ),
    Operation(
        "publish_batch",
        "POST",
        "/publish/{topic}/batch",
        "publish",
        "Publish a JSON array, or one JSON object a line. One bad message, and none is published.",
        {
            200: Result("All are in the log", api_types.PublishedMany),
            202: Result(
                "The sidecar keeps some of them and will send them", api_types.PublishedMany
            ),
            **_PUBLISH_PROBLEMS,
        },
        query=api_types.PublishQuery,
        body=list[BatchItem],
        body_media=("application/json", "application/x-ndjson"),
        headers=_PUBLISHER,
    ),
    Operation(
        "publish_lines",
        "POST",
        "/publish/{topic}/lines",
        "publish",
        "Publish each line of the body as one message, however long the body is.",
        {
            200: Result("All are in the log", api_types.PublishedMany),
            202: Result(
                "The sidecar keeps some of them and will send them", api_types.PublishedMany
            ),
            **_PUBLISH_PROBLEMS,
        },
        query=api_types.PublishQuery,
        body=str,
        body_media=("text/plain",),
        headers=_PUBLISHER,
    ),
    Operation(
        "publish_stream",
        "GET",
        "/publish/{topic}/stream",
        "publish",
        "A WebSocket: one frame, one message; answers come back in order.",
        {101: Result("The stream is open"), 426: Result("Not an upgrade request"), **BAD},
        query=api_types.PublishQuery,
        headers=_PUBLISHER,
    ),
    Operation(
        "subscribe",
        "GET",
        "/subscribe/{topic}",
        "read",
        "Receive a topic's messages as they come: as server-sent events, as lines of JSON, or on a "
        "WebSocket, which takes ack, nack, seek, pause and resume frames.",
        {
            101: Result("The WebSocket is open: one message, one envelope"),
            200: Result(
                "Envelopes: each the data of an event, or a line", api_types.Envelope, (SSE, LINES)
            ),
            **BAD,
            **DENIED,
            404: Result("No such topic, or another's subscription that does not exist"),
            409: Result("The subscription exists otherwise, or the topic is not stored"),
            429: Result("Over the quota, or over limits.streams_max"),
            **DOWN,
        },
        query=api_types.SubscribeQuery,
        headers={
            "Accept": "text/event-stream (the default) or application/x-ndjson",
            "Last-Event-ID": "The id of the last event received; wins over `from`",
        },
    ),
    Operation(
        "messages",
        "GET",
        "/messages/{topic}",
        "read",
        "Read a page of a partition's messages. Past the end the list is empty, after `wait_ms`.",
        {
            200: Result("The messages, and where to go on", api_types.MessageList),
            **BAD,
            **DENIED,
            **_NO_TOPIC,
            **DOWN,
        },
        query=api_types.MessagesQuery,
    ),
    Operation(
        "message",
        "GET",
        "/messages/{topic}/{partition}/{offset}",
        "read",
        "Read one message.",
        {
            200: Result("The message", api_types.Envelope),
            404: Result("No such topic or message"),
            **BAD,
            **DENIED,
            **DOWN,
        },
    ),
    Operation(
        "list_topics",
        "GET",
        "/topics",
        "topics",
        "List the topics that this app may see.",
        {200: Result("The topics", api_types.TopicList), **DOWN},
    ),
    Operation(
        "create_topic",
        "POST",
        "/topics",
        "topics",
        "Create a topic. The same again changes nothing.",
        {
            200: Result("It exists already, just so", api_types.Topic),
            201: Result("It was created", api_types.Topic),
            409: Result("It exists already, with other settings"),
            **BAD,
            **DENIED,
            **DOWN,
        },
        body=api_types.TopicRequest,
    ),
    Operation(
        "describe_topic",
        "GET",
        "/topics/{topic}",
        "topics",
        "Describe a topic.",
        {200: Result("The topic", api_types.Topic), **DENIED, **_NO_TOPIC, **DOWN},
    ),
    Operation(
        "alter_topic",
        "PATCH",
        "/topics/{topic}",
        "topics",
        "Change a topic's settings.",
        {200: Result("The topic", api_types.Topic), **BAD, **DENIED, **_NO_TOPIC, **DOWN},
        body=api_types.TopicChange,
    ),
    Operation(
        "delete_topic",
        "DELETE",
        "/topics/{topic}",
        "topics",
        "Delete a topic and its messages.",
        {204: Result("It is gone"), **DENIED, **_NO_TOPIC, **DOWN},
    ),
    Operation(
        "status",
        "GET",
        "/status",
        "operate",
        "How the sidecar is: its uplink, what waits, what was denied.",
        {200: Result("The status", dict[str, Any])},
    ),
    Operation(
        "whoami",
        "GET",
        "/whoami",
        "operate",
        "Who this app is to the gatekeeper, until when, and what it may do.",
        {200: Result("Its identity and its rules", api_types.WhoAmI), **DOWN},
    ),
    Operation(
        "register_publisher",
        "POST",
        "/register/publisher",
        "register",
        "Learn whether this app may publish to a topic, and get an id for it. Idempotent.",
        {
            200: Result("It was registered before", api_types.Registered),
            201: Result("It is registered", api_types.Registered),
            **BAD,
            **DENIED,
            **DOWN,
        },
        body=api_types.RegisterRequest,
    ),
    Operation(
        "deregister_publisher",
        "POST",
        "/deregister/publisher",
        "register",
        "Forget a publisher. Idempotent.",
        {204: Result("It is not registered any more"), **BAD},
        body=api_types.DeregisterRequest,
    ),
    Operation(
        "list_registrations",
        "GET",
        "/register",
        "register",
        "List everybody who is registered.",
        {200: Result("Publishers and webhooks", api_types.RegisteredList), **DOWN},
    ),
    Operation(
        "list_rejects",
        "GET",
        "/rejects",
        "operate",
        "List batches that were refused after their apps had a 202.",
        {200: Result("The batches", api_types.RejectList), **BAD},
        query=api_types.RejectQuery,
    ),
    Operation(
        "retry_rejects",
        "POST",
        "/rejects/retry",
        "operate",
        "Publish the messages of all refused batches again.",
        {200: Result("Those that were taken, and those that stay", api_types.RetriedAll), **BAD},
        query=api_types.RetryAllQuery,
    ),
    Operation(
        "drop_rejects",
        "DELETE",
        "/rejects",
        "operate",
        "Forget all refused batches for good.",
        {200: Result("They are gone", api_types.Dropped), **BAD},
        query=api_types.RejectQuery,
    ),
    Operation(
        "retry_reject",
        "POST",
        "/rejects/{reject}/retry",
        "operate",
        "Publish a refused batch's messages again.",
        {
            200: Result("They were taken", api_types.Retried),
            404: Result("There is no such reject"),
            409: Result("Somebody else retries it just now"),
            **_PUBLISH_PROBLEMS,
        },
        query=api_types.RetryQuery,
    ),
    Operation(
        "drop_reject",
        "DELETE",
        "/rejects/{reject}",
        "operate",
        "Forget a refused batch for good.",
        {204: Result("It is gone"), 404: Result("There is no such reject"), **BAD},
    ),
    *SUBSCRIPTION_OPERATIONS,
)

ABOUT: Final = (
    Operation(
        "healthz",
        "GET",
        "/healthz",
        "operate",
        "Whether the process runs.",
        {200: Result("It does", dict[str, Any])},
    ),
    Operation(
        "readyz",
        "GET",
        "/readyz",
        "operate",
        "Whether the sidecar can keep its promises now, and why not.",
        {200: Result("It can", dict[str, Any]), 503: Result("It cannot; `checks` says why")},
    ),
    Operation(
        "metrics",
        "GET",
        "/metrics",
        "operate",
        "The numbers of /status and more, for Prometheus.",
        {200: Result("The metrics", str, "text/plain")},
    ),
    Operation(
        "openapi",
        "GET",
        "/openapi.json",
        "operate",
        "This description.",
        {200: Result("OpenAPI 3.1", dict[str, Any])},
    ),
    Operation(
        "docs",
        "GET",
        "/docs",
        "operate",
        "A page to try the API out; the same at /swagger.",
        {200: Result("The page", str, "text/html")},
    ),
)
"""Routes about the sidecar that are served by other hands; listed so that nothing is hidden."""
