"""`sidegate rejects`, with canned answers, and with a mesh whose policy changes its mind."""

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from sidegate.commands.rejects import age

END_S_MAX = 60.0
"""A gatekeeper's start and some commands, on a machine that runs tests on all of its cores."""

REJECT = {
    "id": 7,
    "at_us": 0,
    "topic": "orders",
    "partition": 0,
    "messages": 3,
    "code": "denied",
    "detail": "no rule allows it",
    "decision_id": "d1",
    "reason": None,
    "doubtful": False,
    "bytes": 412,
}


@pytest.fixture
def sidecar(peer: Any) -> Any:
    peer.answer("GET /rejects", 200, {"rejects": [REJECT]})
    peer.answer("POST /rejects/retry", 200, {"retried": 3, "refused": []})
    peer.answer("POST /rejects/7/retry", 200, {"retried": 3})
    peer.answers["DELETE /rejects/7"] = (204, b"")
    return peer


def test_the_list_has_reason_topic_count_age_and_bytes(command: Any, sidecar: Any) -> None:
    shown = command("rejects", "list", "--url", sidecar.url).stdout
    head, row = shown.splitlines()
    columns = ["ID", "TOPIC", "PARTITION", "MESSAGES", "BYTES", "AGE", "CODE", "REASON"]
    assert head.split() == columns
    assert row.split()[:5] == ["7", "orders", "0", "3", "412"]
    assert row.split()[5].endswith("d")
    assert "denied  no rule allows it (decision d1)" in row
    as_json = command("rejects", "list", "--topic", "orders", "--json", "--url", sidecar.url)
    assert json.loads(as_json.stdout)["rejects"] == [REJECT]
    assert sidecar.asked[-1].path == "/rejects?topic=orders"


@pytest.mark.parametrize(
    ("seconds", "shown"), [(0.4, "0s"), (59, "59s"), (60, "1m"), (7300, "2h"), (90_000, "1d")]
)
def test_an_age_is_in_the_greatest_unit_that_fits(seconds: float, shown: str) -> None:
    assert age(seconds) == shown


def test_some_or_all_are_retried(command: Any, sidecar: Any) -> None:
    for arguments in (["7"], ["--all"], ["--topic", "orders"], ["--all", "--force"]):
        done = command("rejects", "retry", *arguments, "--url", sidecar.url)
        assert (done.returncode, done.stdout) == (0, "3 messages published.\n")
    assert [asked.path for asked in sidecar.asked] == [
        "/rejects/7/retry",
        "/rejects/retry",
        "/rejects/retry?topic=orders",
        "/rejects/retry?force=true",
    ]


def test_what_is_refused_again_is_told_with_exit_code_1(command: Any, sidecar: Any) -> None:
    sidecar.answer("POST /rejects/7/retry", 403, {"code": "denied", "detail": "still no"})
    done = command("rejects", "retry", "7", "--url", sidecar.url)
    assert (done.returncode, done.stdout) == (1, "0 messages published.\n")
    assert "reject 7 stays (denied): still no" in done.stderr
    done = command("rejects", "retry", "7", "--json", "--url", sidecar.url)
    assert json.loads(done.stdout)["refused"] == [{"id": 7, "code": "denied", "detail": "still no"}]


def test_dropping_asks_first_and_drops_only_what_was_listed(command: Any, sidecar: Any) -> None:
    done = command("rejects", "drop", "--all", "--url", sidecar.url, stdin="n\n")
    assert done.returncode == 1
    assert "Forget 3 messages for good?" in done.stderr
    assert [asked.method for asked in sidecar.asked] == ["GET"]
    done = command("rejects", "drop", "--all", "--yes", "--url", sidecar.url)
    assert done.stdout == "3 messages dropped.\n"
    assert sidecar.asked[-1].path == "/rejects/7"
    assert sidecar.asked[-1].method == "DELETE"


def test_an_id_that_is_not_there_drops_nothing(command: Any, sidecar: Any) -> None:
    done = command("rejects", "drop", "7", "8", "--yes", "--url", sidecar.url)
    assert done.returncode == 1
    assert "no reject 8" in done.stderr
    assert [asked.method for asked in sidecar.asked] == ["GET"]


@pytest.mark.parametrize("arguments", [[], ["7", "--all"], ["--all", "--topic", "orders"]])
@pytest.mark.parametrize("verb", ["retry", "drop"])
def test_it_must_be_said_which_ones_are_meant(
    command: Any, verb: str, arguments: list[str]
) -> None:
    done = command("rejects", verb, *arguments)
    assert done.returncode == 2
    assert "one of the three" in done.stderr


def test_denied_after_spooling_then_allowed_then_retried_is_delivered_once(
    start_mesh: Callable[..., Any], command: Any
) -> None:
    # A try that met the kill had no answer; it can't arrive any more once its gatekeeper is gone.
    mesh = start_mesh(environ={"SIDEGATE_SIDECAR_DEDUPE__LATE": "1s"})
    mesh.wait_for("ready")
    assert mesh.publish("orders", 0)[0] == 200
    policy = mesh.state / "policy.yaml"
    allowed = policy.read_text()
    denied = allowed.replace('on: "forbidden.>"', 'on: "orders"').replace(
        "on: orders, expect: allow", "on: orders, expect: deny"
    )
    denied = denied.replace("on: forbidden.orders, expect: deny", "on: x, expect: allow")
    with _nobody_restarts(mesh):
        os.kill(mesh.pid_of("gatekeeper"), signal.SIGKILL)
        policy.write_text(denied)
        for number in (1, 2, 3):
            status, answer = mesh.publish("orders", number, "?timeout_ms=200")
            assert (status, answer["durability"]) == (202, "spooled")
    rejects = _until(mesh, lambda found: sum(each["messages"] for each in found) == 3)
    assert {each["code"] for each in rejects} == {"denied"}
    listed = command("rejects", "list").stdout
    assert "orders" in listed
    assert "decision" in listed
    still = command("rejects", "retry", "--all")
    assert (still.returncode, still.stdout) == (1, "0 messages published.\n")
    policy.write_text(allowed)
    end = time.monotonic() + END_S_MAX
    published = 0
    while published < 3:
        done = command("rejects", "retry", "--all")
        published += int(done.stdout.split()[0])
        assert time.monotonic() < end, done
    assert (done.returncode, published) == (0, 3)
    assert command("rejects", "list").stdout == "There are none.\n"
    assert [each["message"] for each in mesh.messages("orders")] == [0, 1, 2, 3]


@contextmanager
def _nobody_restarts(mesh: Any) -> Iterator[None]:
    """Who is killed in here stays away until the end of it."""
    os.kill(mesh.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(mesh.pid, signal.SIGCONT)


def _until(mesh: Any, enough: Callable[[list[Any]], bool]) -> list[Any]:
    end = time.monotonic() + END_S_MAX
    while True:
        found: list[Any] = mesh.request("GET", "/rejects")[1]["rejects"]
        if enough(found):
            return found
        assert time.monotonic() < end, mesh.request("GET", "/status")
        time.sleep(0.05)
