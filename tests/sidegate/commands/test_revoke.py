import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Add = Callable[..., Any]


def is_in(service: Any) -> bool:
    return bool(service.request("GET", "/whoami")[0] == 200)


def test_a_revoked_client_is_out_within_moments_and_back_when_it_is_lifted(
    mesh: Any, in_mesh: Any, add_service: Add
) -> None:
    service = add_service(mesh, "revoked-client")
    assert is_in(service)
    done = in_mesh("revoke", "client", "revoked-client", "--reason", "a test")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "Revoked the client revoked-client for ever, on every gatekeeper.\n"
    service.until(lambda: not is_in(service))
    status, problem = service.publish("revoked-client", 1, "?ack=core")
    assert status == 503
    assert "revoked: 'a test'" in problem["detail"]
    assert "revoked-client" in in_mesh("revoke", "list").stdout
    denied = json.loads(in_mesh("decisions", "--denied", "--json").stdout)["decisions"]
    assert "client_revoked" in {record["reason"] for record in denied}

    done = in_mesh("revoke", "client", "revoked-client", "--lift", "--reason", "over")
    assert done.stdout == "The client revoked-client is no longer revoked.\n"
    service.until(lambda: is_in(service))
    assert "revoked-client" not in in_mesh("revoke", "list").stdout


def test_a_certificate_is_revoked_by_its_file(mesh: Any, in_mesh: Any, add_service: Add) -> None:
    service = add_service(mesh, "revoked-certificate")
    file = ".sidegate/certs/revoked-certificate.pem"
    done = in_mesh("revoke", "certificate", file, "--reason", "lost", "--until", "1h", "--json")
    assert done.returncode == 0, done.stderr
    record = json.loads(done.stdout)
    assert int(record["value"], 16) > 0
    assert 3500e6 < record["until_us"] - time.time() * 1e6 < 3700e6
    service.until(lambda: not is_in(service))


def test_a_revoked_token_is_replaced_by_the_sidecar(
    mesh: Any, in_mesh: Any, add_service: Add
) -> None:
    service = add_service(mesh, "revoked-token")
    first = service.request("GET", "/whoami")[1]["token_id"]
    done = in_mesh("revoke", "token", first, "--reason", "leaked", "--issuer", "dev", "--json")
    assert done.returncode == 0, done.stderr
    assert 86000e6 < json.loads(done.stdout)["until_us"] - time.time() * 1e6 < 87000e6

    def replaced() -> bool:
        status, told = service.request("GET", "/whoami")
        return status == 200 and told["token_id"] != first

    service.until(replaced)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["client", "x"], "--reason"),
        (["client", "x", "--reason", "r", "--until", "soon"], "neither a duration"),
        (["client", "x", "--reason", "r", "--until", "2026-01-01T00:00:00"], "no time zone"),
        (["client", "x", "--reason", "r", "--until", "2020-01-01T00:00:00Z"], "in the past"),
        (["client", "x", "--reason", "r", "--until", "1h", "--lift"], "leave --until out"),
        (["password", "x"], "No such command"),
    ],
)
def test_what_makes_no_sense_is_a_usage_error(command: Any, arguments: list[str], why: str) -> None:
    done = command("revoke", *arguments)
    assert done.returncode == 2
    assert why in done.stderr


def test_a_file_that_is_no_certificate_is_a_usage_error(command: Any) -> None:
    Path(command.folder / "letter.pem").write_text("dear")
    done = command("revoke", "certificate", "letter.pem", "--reason", "r")
    assert done.returncode == 2
    assert "letter.pem holds no certificate" in done.stderr


def test_what_the_gatekeeper_refuses_is_a_failure_with_its_reason(in_mesh: Any) -> None:
    done = in_mesh("revoke", "certificate", "not-hexadecimal", "--reason", "r")
    assert done.returncode == 1
    assert "hexadecimal" in done.stderr


def test_nothing_revoked_is_said_so(command: Any, peer: Any) -> None:
    (command.folder / "secret").write_text("s" * 32)
    peer.answer("GET /revocations", 200, {"version": 1, "revocations": []})
    options = ["--admin", peer.url, "--secret", "secret"]
    assert command("revoke", "list", *options).stdout == "Nothing is revoked.\n"
    until = {"kind": "token_id", "value": "t", "until_us": 1_800_000_000_000_000, "reason": None}
    peer.answer("GET /revocations", 200, {"version": 2, "revocations": [until]})
    shown = command("revoke", "list", *options).stdout.splitlines()[1]
    assert shown.split() == ["token", "t", "any", "2027-01-15T08:00:00Z"]
