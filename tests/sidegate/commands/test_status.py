import json
import os
from datetime import UTC, datetime
from typing import Any

import click
import pytest

from sidegate.commands.status import render
from sidegate.development.running import Running

SIDECAR = {
    "service": "sidecar",
    "uplink": "connected",
    "uplink_reason": None,
    "uplink_since": "2026-01-01T00:00:00.000Z",
    "gatekeeper": "https://127.0.0.1:1",
    "queues": {"waiting_messages": 2, "unsettled_batches": 1},
    "committed": {"messages": 10, "batches": 3},
    "denied": 1,
    "last_denial": {"topic": "forbidden.x", "detail": "dev-app may not publish: D1 denies it"},
    "delivered": 4,
    "streams": 1,
}
METRICS = b"""# TYPE sidegate_gatekeeper_decisions counter
sidegate_gatekeeper_decisions_total{action="publish",result="allow",rule="topics:>"} 5.0
sidegate_gatekeeper_decisions_total{action="subscribe",result="allow",rule="topics:>"} 2.0
sidegate_gatekeeper_decisions_total{action="publish",result="deny",rule="D1",reason="deny rule"} 1.0
"""


@pytest.fixture
def mesh(command: Any, peer: Any) -> Any:
    """A record as `sidegate up` writes it, with its lock held, whose services are the peer."""
    running = Running(command.folder / ".sidegate" / "run")
    running.folder.mkdir(parents=True)
    peer.answer("GET /readyz", 200, {"ready": True})
    peer.answer("GET /status", 200, SIDECAR)
    peer.answers["GET /metrics"] = (200, METRICS)
    service = {
        "state": "ready",
        "pid": 1,
        "since": "2026-01-01T00:00:00+00:00",
        "restarts": 2,
        "health": peer.url,
    }
    names = ("core", "gatekeeper", "sidecar")
    with running.held():
        running.write_record(
            {
                "pid": os.getpid(),
                "started": "2026-01-01T00:00:00+00:00",
                "url": peer.url,
                "services": {name: dict(service) for name in names},
            }
        )
        yield running


def test_a_sound_mesh_exits_with_0_and_shows_all_of_it(command: Any, mesh: Any) -> None:
    result = command("status", environ={})
    assert result.returncode == 0, result.stderr
    for name in ("core", "gatekeeper", "sidecar"):
        assert f"\n{name}" in result.stdout
    assert "connected" in result.stdout
    assert "2 waiting, 1 batches under way" in result.stdout
    assert "1 messages; the last: dev-app may not publish: D1 denies it" in result.stdout
    assert "7 allowed, 1 denied" in result.stdout


def test_json_has_the_same(command: Any, mesh: Any) -> None:
    seen = json.loads(command("status", "--json", environ={}).stdout)
    assert seen["well"] is True
    assert seen["decisions"] == {"allow": 7, "deny": 1}
    assert seen["services"]["core"]["ready"] is True
    assert seen["sidecar"]["denied"] == 1


def test_a_service_that_is_not_ready_exits_with_1_and_its_reason(
    command: Any, mesh: Any, peer: Any
) -> None:
    checks = {"disk": {"ready": False, "free_bytes": 0}, "tls": {"ready": True}}
    peer.answer("GET /readyz", 503, {"ready": False, "checks": checks})
    result = command("status", environ={})
    assert result.returncode == 1
    assert "ready, not ready" not in result.stdout
    assert "not ready: disk (free_bytes: 0)" in result.stdout


def test_an_uplink_that_is_down_exits_with_1(command: Any, mesh: Any, peer: Any) -> None:
    peer.answer("GET /status", 200, {**SIDECAR, "uplink": "down", "uplink_reason": "refused"})
    result = command("status", environ={})
    assert result.returncode == 1
    assert "down" in result.stdout
    assert "refused" in result.stdout


def test_nothing_running_exits_with_2(command: Any) -> None:
    result = command("status", "--url", "http://127.0.0.1:1")
    assert result.returncode == 2
    assert "make up" in result.stderr


def test_a_sidecar_alone_can_be_asked(command: Any, peer: Any) -> None:
    peer.answer("GET /status", 200, SIDECAR)
    result = command("status", "--url", peer.url)
    assert result.returncode == 0
    assert "connected" in result.stdout


def test_it_fits_on_one_screen() -> None:
    service = {
        "state": "ready",
        "ready": True,
        "pid": 1,
        "since": "2026-01-01T00:00:00+00:00",
        "restarts": 0,
        "reason": "",
    }
    names = ("core", "issuer", "gatekeeper", "sidecar")
    seen = {
        "state": ".sidegate",
        "pid": 1,
        "started": "2026-01-01T00:00:00+00:00",
        "url": "http://127.0.0.1:1",
        "services": {name: dict(service) for name in names},
        "sidecar": SIDECAR,
        "decisions": {"allow": 1, "deny": 2},
    }
    lines = click.unstyle(render(seen, datetime(2026, 1, 1, 2, tzinfo=UTC))).splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 100
    assert "up for 2h" in lines[0]


@pytest.mark.parametrize(
    ("witness", "shown", "code"),
    [
        ({"state": "watching", "size": 17}, "watching, the log of 17 batches only grew", 0),
        ({"state": "waiting", "problem": "no answer"}, "waiting: no answer", 0),
        ({"state": "off", "problem": "core.public_key is not set"}, "off: core.public_key", 0),
        ({"state": "silent"}, "ALARM silent: the core shows no checkpoint", 1),
        (
            {"state": "alarm", "alarm": "forked", "text": "it forked", "evidence": ["0-a.note"]},
            "ALARM forked: it forked; evidence: 0-a.note",
            1,
        ),
    ],
)
def test_what_the_witness_sees_is_on_the_screen_and_an_alarm_is_a_failure(
    command: Any, mesh: Any, peer: Any, witness: Any, shown: str, code: int
) -> None:
    peer.answer("GET /readyz", 200, {"ready": True, "checks": {"witness": witness}})
    result = command("status", environ={})
    assert shown in result.stdout
    assert result.returncode == code


def test_an_alarm_is_red() -> None:
    alarm = {"state": "alarm", "alarm": "split", "text": "two trees", "problem": "why"}
    seen = {"services": {}, "sidecar": SIDECAR, "decisions": None, "url": "u", "witness": alarm}
    text = render(seen, datetime(2026, 1, 1, tzinfo=UTC))
    assert click.style("ALARM split: two trees (why)", fg="red", bold=True) in text
