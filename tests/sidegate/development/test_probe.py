from typing import Any

from sidegate.development.probe import Probe, way_through


def test_ready_is_what_readyz_says(peer: Any) -> None:
    peer.answer("GET /readyz", 200, {"ready": True})
    assert Probe(peer.url).ask().ready


def test_the_failing_checks_are_named(peer: Any) -> None:
    checks = {"disk": {"ready": False, "free": 1}, "tls": {"ready": True}, "x": {"ready": False}}
    peer.answer("GET /readyz", 503, {"ready": False, "checks": checks})
    verdict = Probe(peer.url).ask()
    assert not verdict.ready
    assert verdict.reason == "not ready: disk (free: 1), x"


def test_a_service_that_is_starting_says_so(peer: Any) -> None:
    peer.answer("GET /readyz", 503, {"ready": False, "checks": {}})
    assert Probe(peer.url).ask().reason == "it is still starting"
    peer.answers["GET /readyz"] = (503, b"what?")
    assert Probe(peer.url).ask().reason == "it is not ready"


def test_nobody_there_is_not_ready() -> None:
    verdict = Probe("http://127.0.0.1:1").ask()
    assert not verdict.ready
    assert "127.0.0.1:1" in verdict.reason


def test_the_way_is_open_when_the_core_answers_through_the_sidecar(peer: Any) -> None:
    peer.answer("GET /status", 200, {"uplink": "connected"})
    peer.answer("GET /topics", 200, {"topics": []})
    assert way_through(peer.url).ready
    assert {asked.method for asked in peer.asked} == {"GET"}


def test_the_way_is_not_open_while_the_uplink_is_down(peer: Any) -> None:
    peer.answer("GET /status", 200, {"uplink": "down", "uplink_reason": "no token"})
    verdict = way_through(peer.url)
    assert not verdict.ready
    assert "no token" in verdict.reason
    assert [asked.path for asked in peer.asked] == ["/status"]


def test_the_way_is_not_open_when_the_question_is_refused(peer: Any) -> None:
    peer.answer("GET /status", 200, {"uplink": "connected"})
    peer.answer("GET /topics", 503, {"title": "Unavailable", "detail": "no core"})
    assert "no core" in way_through(peer.url).reason


def test_the_way_is_not_open_without_a_sidecar() -> None:
    assert not way_through("http://127.0.0.1:1").ready
