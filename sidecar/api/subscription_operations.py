"""The operations around subscriptions, channels and registered webhooks, for `operations.py`."""

from typing import Final

from sidecar.api import api_types
from sidecar.api.operation import BAD, DENIED, DOWN, Operation, Result
from sidecar.push import subscription_types as types

_NONE: Final = {404: Result("No such subscription")}
_CONFLICT: Final = {409: Result("It contradicts what is there; `reason` says how")}
_USUAL: Final = {**BAD, **DENIED, **_NONE, **_CONFLICT, **DOWN}
_ONE: Final = "/subscriptions/{subscription}"
_STATE: Final = {200: Result("How it is now", types.SubscriptionState), **_USUAL}
_DEFINITION: Final = {200: Result("The subscription", types.Subscription), **_USUAL}
_RERUN: Final = {
    200: Result("It is under way already, or there is nothing to do", types.Rerunning),
    201: Result("It has begun", types.Rerunning),
    **_USUAL,
}
_NO_CHANNEL: Final = {404: Result("No such channel")}


def _act(name: str, verb: str, text: str, body: object, results: dict[int, Result]) -> Operation:
    return Operation(
        f"{name}_subscription",
        "POST",
        f"{_ONE}/{verb}",
        "subscriptions",
        text,
        results,
        query=types.OwnerQuery,
        body=body,
    )


SUBSCRIPTION_OPERATIONS: Final = (
    Operation(
        "create_subscription",
        "POST",
        "/subscriptions",
        "subscriptions",
        "Create a durable subscription: for streams, or pushed to a webhook.",
        {
            200: Result("It exists already, just so", types.Subscription),
            201: Result("It was created", types.Subscription),
            **_USUAL,
            404: Result("No such topic"),
        },
        body=types.SubscriptionRequest,
    ),
    Operation(
        "list_subscriptions",
        "GET",
        "/subscriptions",
        "subscriptions",
        "List the subscriptions of this app, or of another owner.",
        {200: Result("The subscriptions", types.SubscriptionList), **BAD, **DENIED, **DOWN},
        query=types.OwnerQuery,
    ),
    Operation(
        "describe_subscription",
        "GET",
        _ONE,
        "subscriptions",
        "Describe a subscription: state, members, lag, in flight, last error, next try.",
        _STATE,
        query=types.OwnerQuery,
    ),
    Operation(
        "alter_subscription",
        "PATCH",
        _ONE,
        "subscriptions",
        "Change a subscription; what is not given stays.",
        _DEFINITION,
        query=types.OwnerQuery,
        body=types.SubscriptionChange,
    ),
    Operation(
        "delete_subscription",
        "DELETE",
        _ONE,
        "subscriptions",
        "Delete a subscription and its place.",
        {204: Result("It is gone"), **_USUAL},
        query=types.OwnerQuery,
    ),
    _act("pause", "pause", "Deliver nothing until it is resumed.", None, _DEFINITION),
    _act("resume", "resume", "Go on delivering.", None, _DEFINITION),
    _act("seek", "seek", "Go on at another place.", types.SeekRequest, _STATE),
    _act("ack", "ack", "Count messages as done, by hand.", types.AckRequest, _STATE),
    _act("nack", "nack", "Have messages delivered again, by hand.", types.NackRequest, _STATE),
    _act(
        "redrive",
        "redrive",
        "Deliver its dead letters again, to it alone.",
        types.RedriveRequest,
        _RERUN,
    ),
    _act(
        "replay",
        "replay",
        "Deliver a range of its topic again, to it alone.",
        types.ReplayRequest,
        _RERUN,
    ),
    Operation(
        "list_channels",
        "GET",
        "/channels",
        "channels",
        "List the named destinations of this app.",
        {200: Result("The channels", types.ChannelList), **DENIED, **DOWN},
    ),
    Operation(
        "create_channel",
        "POST",
        "/channels",
        "channels",
        "Create a named destination, to be used as push.channel.",
        {
            200: Result("It exists already, just so", types.Channel),
            201: Result("It was created", types.Channel),
            **BAD,
            **DENIED,
            **_CONFLICT,
            **DOWN,
        },
        body=types.ChannelRequest,
    ),
    Operation(
        "describe_channel",
        "GET",
        "/channels/{channel}",
        "channels",
        "Describe a channel.",
        {200: Result("The channel", types.Channel), **BAD, **DENIED, **_NO_CHANNEL, **DOWN},
    ),
    Operation(
        "put_channel",
        "PUT",
        "/channels/{channel}",
        "channels",
        "Put a channel in the place of what was there; pushes follow within seconds.",
        {
            200: Result("It was replaced", types.Channel),
            201: Result("It was created", types.Channel),
            **BAD,
            **DENIED,
            **DOWN,
        },
        body=types.ChannelChange,
    ),
    Operation(
        "delete_channel",
        "DELETE",
        "/channels/{channel}",
        "channels",
        "Delete a channel. Pushes that use it wait until it is there again.",
        {204: Result("It is gone"), **BAD, **DENIED, **_NO_CHANNEL, **DOWN},
    ),
    Operation(
        "register_subscriber",
        "POST",
        "/register/subscriber",
        "register",
        "Have a topic's messages sent to a URL, each once, from now on. Idempotent.",
        {
            200: Result("It was registered before", api_types.RegisteredSubscriber),
            201: Result("It is registered", api_types.RegisteredSubscriber),
            **BAD,
            **DENIED,
            **_CONFLICT,
            **DOWN,
        },
        body=types.SubscriberRequest,
    ),
    Operation(
        "deregister_subscriber",
        "POST",
        "/deregister/subscriber",
        "register",
        "Forget a webhook. Idempotent.",
        {204: Result("It is not registered any more"), **BAD, **DENIED, **_CONFLICT, **DOWN},
        body=types.SubscriberGone,
    ),
)
