"""One message's trace goes from the app through all services to the subscriber."""

import json
from collections.abc import Callable
from typing import Any

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
APP_SPAN = "00f067aa0ba902b7"
TRACEPARENT = f"00-{TRACE}-{APP_SPAN}-01"
SERVICES = ("SIDECAR", "GATEKEEPER", "CORE")


def test_a_message_is_followed_through_sidecar_gatekeeper_core_and_subscriber(
    start_mesh: Callable[..., Any], collector: Any
) -> None:
    mesh = start_mesh(
        environ={f"SIDEGATE_{service}_TRACING__OTLP": collector.url for service in SERVICES}
    )
    mesh.wait_for("ready")
    status, answer, _ = mesh.request(
        "POST",
        "/publish?ack=core",
        {"topic": "orders", "message": 1},
        {"traceparent": TRACEPARENT, "tracestate": "vendor=1"},
    )
    assert status == 200, answer
    (received,) = mesh.subscribe("orders", 1)
    headers = received["headers"]
    spans = collector.wait_for(
        ("sidegate-sidecar", "publish orders"),
        ("sidegate-sidecar", "append"),
        ("sidegate-gatekeeper", "append"),
        ("sidegate-core", "append"),
        ("sidegate-sidecar", "deliver orders"),
    )
    path = [
        spans["sidegate-sidecar", "publish orders"],
        spans["sidegate-sidecar", "append"],
        spans["sidegate-gatekeeper", "append"],
        spans["sidegate-core", "append"],
    ]
    assert {span.trace_id.hex() for span in path} == {TRACE}
    parents = [span.parent_span_id.hex() for span in path]
    assert parents == [APP_SPAN, *(span.span_id.hex() for span in path[:-1])]
    delivered = spans["sidegate-sidecar", "deliver orders"]
    assert delivered.trace_id.hex() == TRACE
    assert delivered.parent_span_id == path[0].span_id
    assert headers["tracestate"] == "vendor=1"
    assert headers["traceparent"] == f"00-{TRACE}-{path[0].span_id.hex()}-01"


def test_without_tracing_the_apps_own_trace_reaches_the_subscriber(mesh: Any, topic: str) -> None:
    mesh.request("POST", f"/publish/{topic}", {"n": 1}, {"traceparent": TRACEPARENT})
    status, page, _ = mesh.request("GET", f"/messages/{topic}?offset=0")
    assert status == 200, json.dumps(page)
    assert page["messages"][0]["headers"] == {"traceparent": TRACEPARENT}
