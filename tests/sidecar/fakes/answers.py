"""What a fake answers when it refuses."""

from typing import Any

from aiohttp import web


def problem(status: int, code: str, detail: str, **members: str) -> web.Response:
    body = {"type": f"urn:sidegate:problem:{code}", "code": code, "detail": detail, **members}
    return web.json_response(body, status=status, content_type="application/problem+json")


def refusal(frame: Any, code: str) -> dict[str, Any]:
    producer = frame.envelope.producer
    return {
        "topic": producer.topic,
        "partition": producer.partition,
        "error": code,
        "detail": f"the test says {code}",
        "retryable": code in ("over_quota", "unavailable", "overloaded", "disk_full"),
        "retry_after_ms": 50,
        "decision_id": "d-17",
        "reason": "rule D1",
    }
