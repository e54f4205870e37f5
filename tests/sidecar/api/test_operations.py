"""The list of operations: each once, each served, each with its answers."""

import pytest

from sidecar.api.app import make_app
from sidecar.api.guard import Guard
from sidecar.api.operations import OPERATIONS


def test_no_operation_is_listed_twice():
    places = [(operation.method, operation.path) for operation in OPERATIONS]
    names = [operation.name for operation in OPERATIONS]
    assert len(set(places)) == len(places)
    assert len(set(names)) == len(names)


def test_every_operation_has_a_success_and_says_what_it_does():
    for operation in OPERATIONS:
        assert operation.text.endswith("."), operation.name
        assert min(operation.results) < 400, operation.name
        assert all(result.text for result in operation.results.values()), operation.name


def test_reading_and_topics_need_a_gatekeeper_and_say_what_happens_without_one():
    for operation in OPERATIONS:
        if operation.tag in ("read", "topics"):
            assert 503 in operation.results, operation.name


def test_the_router_serves_every_operation():
    async def handler(_):
        pytest.fail("no request was made")

    app = make_app({operation.name: handler for operation in OPERATIONS}, Guard())
    served = {
        (route.method, route.resource.canonical) for route in app.router.routes() if route.resource
    }
    for operation in OPERATIONS:
        assert (operation.method, operation.path) in served
