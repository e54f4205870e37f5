"""Every operation of the HTTP API, once: the router and the OpenAPI pages are made from this."""

from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from sidecar import api_types
from sidecar.message import BatchItem, PublishRequest

SSE: Final = "text/event-stream"
JSON: Final = "application/json"


@dataclass(frozen=True, slots=True)
class Result:
    """One answer: its meaning, and its body's type and media type."""

    text: str
    body: Any = None
    media: str = JSON


@dataclass(frozen=True, slots=True)
class Operation:
    """One method of one path. `name` is the handler's."""

    name: str
    method: str
    path: str
    tag: str
    text: str
    results: dict[int, Result]
    query: type[msgspec.Struct] = api_types.NoQuery
    body: Any = None
    body_media: tuple[str, ...] = (JSON,)
    headers: dict[str, str] = field(default_factory=dict)


_DENIED: Final = {403: Result("The policy denies it, or a web page of another site asks")}
_BAD: Final = {400: Result("A field or parameter is wrong; the detail names it")}
_DOWN: Final = {503: Result("No gatekeeper can be reached; see Retry-After")}
_PUBLISH_PROBLEMS: Final = {
    **_BAD,
    **_DENIED,
    413: Result("A message is over limits.message_bytes_max"),
    429: Result("Over the quota; see Retry-After"),
    **_DOWN,
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
        {101: Result("The stream is open"), 426: Result("Not an upgrade request"), **_BAD},
        query=api_types.PublishQuery,
        headers=_PUBLISHER,
    ),
    Operation(
        "subscribe",
        "GET",
        "/subscribe/{topic}",
        "read",
        "Receive a topic's messages as server-sent events, as they come.",
        {
            200: Result("Events whose data is an envelope", api_types.Envelope, SSE),
            **_BAD,
            **_DENIED,
            **_NO_TOPIC,
            **_DOWN,
        },
        query=api_types.SubscribeQuery,
        headers={"Last-Event-ID": "The id of the last event received; wins over `from`"},
    ),
    Operation(
        "messages",
        "GET",
        "/messages/{topic}",
        "read",
        "Read a page of a partition's messages. Past the end the list is empty.",
        {
            200: Result("The messages, and where to go on", api_types.MessageList),
            **_BAD,
            **_DENIED,
            **_NO_TOPIC,
            **_DOWN,
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
            **_BAD,
            **_DENIED,
            **_DOWN,
        },
    ),
    Operation(
        "list_topics",
        "GET",
        "/topics",
        "topics",
        "List the topics that this app may see.",
        {200: Result("The topics", api_types.TopicList), **_DOWN},
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
            **_BAD,
            **_DENIED,
            **_DOWN,
        },
        body=api_types.TopicRequest,
    ),
    Operation(
        "describe_topic",
        "GET",
        "/topics/{topic}",
        "topics",
        "Describe a topic.",
        {200: Result("The topic", api_types.Topic), **_DENIED, **_NO_TOPIC, **_DOWN},
    ),
    Operation(
        "alter_topic",
        "PATCH",
        "/topics/{topic}",
        "topics",
        "Change a topic's settings.",
        {200: Result("The topic", api_types.Topic), **_BAD, **_DENIED, **_NO_TOPIC, **_DOWN},
        body=api_types.TopicChange,
    ),
    Operation(
        "delete_topic",
        "DELETE",
        "/topics/{topic}",
        "topics",
        "Delete a topic and its messages.",
        {204: Result("It is gone"), **_DENIED, **_NO_TOPIC, **_DOWN},
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
        {200: Result("Its identity and its rules", api_types.WhoAmI), **_DOWN},
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
            **_BAD,
            **_DENIED,
            **_DOWN,
        },
        body=api_types.RegisterRequest,
    ),
    Operation(
        "deregister_publisher",
        "POST",
        "/deregister/publisher",
        "register",
        "Forget a publisher. Idempotent.",
        {204: Result("It is not registered any more"), **_BAD},
        body=api_types.DeregisterRequest,
    ),
    Operation(
        "list_registrations",
        "GET",
        "/register",
        "register",
        "List everybody who is registered.",
        {200: Result("The publishers", api_types.RegisteredList)},
    ),
    Operation(
        "list_rejects",
        "GET",
        "/rejects",
        "operate",
        "List batches that were refused after their apps had a 202.",
        {200: Result("The batches", api_types.RejectList), **_BAD},
        query=api_types.RejectQuery,
    ),
    Operation(
        "retry_rejects",
        "POST",
        "/rejects/retry",
        "operate",
        "Publish the messages of all refused batches again.",
        {200: Result("Those that were taken, and those that stay", api_types.RetriedAll), **_BAD},
        query=api_types.RetryAllQuery,
    ),
    Operation(
        "drop_rejects",
        "DELETE",
        "/rejects",
        "operate",
        "Forget all refused batches for good.",
        {200: Result("They are gone", api_types.Dropped), **_BAD},
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
        {204: Result("It is gone"), 404: Result("There is no such reject"), **_BAD},
    ),
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
