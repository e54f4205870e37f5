"""Every operation of subscriptions is in the router, the OpenAPI page, and has a handler."""

from sidecar.api.openapi import openapi_document
from sidecar.api.operations import OPERATIONS
from sidecar.api.subscription_operations import SUBSCRIPTION_OPERATIONS


def test_they_are_all_in_the_description():
    paths = openapi_document()["paths"]
    for operation in SUBSCRIPTION_OPERATIONS:
        assert operation in OPERATIONS
        described = paths[operation.path][operation.method.lower()]
        assert described["operationId"] == operation.name
        assert ("requestBody" in described) == (operation.body is not None)


def test_what_the_issue_of_a_stuck_subscription_needs_is_described():
    schemas = openapi_document()["components"]["schemas"]
    shown = schemas["SubscriptionState"]["properties"]
    assert {"state", "members", "lag", "in_flight", "delivery"} <= shown.keys()
    assert {"last_error", "next_try"} <= schemas["DeliveryView"]["properties"].keys()
