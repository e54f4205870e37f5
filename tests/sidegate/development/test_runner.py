"""The mesh's life: started in order, kept alive, stopped in time, never left behind."""

import os
import signal
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sidegate.development.supervisor import DOUBLED_S_MAX

SERVICES = ("core", "issuer", "gatekeeper", "sidecar")
Start = Callable[..., Any]


def alive(pid: int) -> bool:
    """Whether it still runs. One that ended and was not reaped by the system yet does not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    status = Path(f"/proc/{pid}/stat")
    return not status.exists() or status.read_text().rpartition(")")[2].split()[0] != "Z"


def test_each_service_is_a_process_of_its_own_named_after_its_command(mesh: Any) -> None:
    if not Path("/proc/self/cmdline").exists():
        pytest.skip("needs /proc, to see the processes' command lines")
    pids = {service: mesh.pid_of(service) for service in SERVICES}
    assert len(set(pids.values())) == len(SERVICES)
    for service, pid in pids.items():
        words = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
        assert f"sidegate {service} --config " in words
        assert Path(f"/proc/{pid}/cwd").readlink() == mesh.state.parent


def test_services_start_after_those_that_they_need(start_mesh: Start) -> None:
    mesh = start_mesh()
    mesh.wait_for("ready")
    since = {name: service["since"] for name, service in mesh.record()["services"].items()}
    assert max(since["core"], since["issuer"]) <= since["gatekeeper"] <= since["sidecar"]
    assert mesh.record()["ready"] is True


def test_an_impatient_second_ctrl_c_ends_it_at_once(start_mesh: Start) -> None:
    mesh = start_mesh()
    mesh.wait_for("ready")
    gatekeeper = mesh.pid_of("gatekeeper")
    os.kill(gatekeeper, signal.SIGSTOP)
    mesh.interrupt()
    mesh.wait_for("stopping")
    time.sleep(2 * DOUBLED_S_MAX)
    mesh.interrupt()
    assert mesh.wait() == 1
    assert mesh.wait_for("killed", "gatekeeper")["text"] == "did not stop in time"
    assert not alive(gatekeeper)


def test_a_signal_that_comes_twice_at_once_is_one_request(start_mesh: Start) -> None:
    mesh = start_mesh()
    mesh.wait_for("ready")
    for number in (signal.SIGTERM, signal.SIGTERM, signal.SIGINT, signal.SIGINT):
        mesh.interrupt(number)
    assert mesh.wait() == 0
    assert not [event for event in mesh.events if event["event"] == "killed"]


def test_it_stops_as_well_when_nobody_reads_what_it_says(start_mesh: Start) -> None:
    mesh = start_mesh()
    mesh.wait_for("ready")
    pids = [mesh.pid_of(service) for service in SERVICES]
    mesh.stop_reading()
    os.kill(pids[0], signal.SIGKILL)
    mesh.interrupt(signal.SIGHUP)
    assert mesh.wait() == 0, mesh.errors()
    assert mesh.errors() == ""
    assert not any(alive(pid) for pid in pids)


def test_it_goes_on_when_its_record_can_not_be_written(start_mesh: Start) -> None:
    mesh = start_mesh()
    mesh.wait_for("ready")
    record = mesh.record()
    (mesh.state / "run" / ".up.json").mkdir()
    os.kill(record["services"]["issuer"]["pid"], signal.SIGKILL)
    mesh.wait_for("restarted", "issuer")
    assert "could not be written down" in mesh.wait_for("warning")["text"]
    mesh.interrupt()
    assert mesh.wait() == 0


def test_a_service_that_hangs_is_killed_in_time(start_mesh: Start) -> None:
    mesh = start_mesh()
    mesh.wait_for("ready")
    os.kill(mesh.pid_of("core"), signal.SIGSTOP)
    mesh.interrupt()
    assert mesh.wait() == 1
    assert [event["service"] for event in mesh.events if event["event"] == "killed"] == ["core"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_stops_everything_cleanly_within_5_s(
    start_mesh: Start, number: signal.Signals
) -> None:
    mesh = start_mesh()
    mesh.wait_for("ready")
    mesh.publish("orders", 1)
    pids = [mesh.pid_of(service) for service in SERVICES]
    mesh.interrupt(number)
    # Whoever is still there after STOP_S_MAX is killed, and that would be exit code 1.
    assert mesh.wait() == 0, mesh.errors()
    assert not any(alive(pid) for pid in pids)
    assert [event["event"] for event in mesh.events if event["event"] in ("killed", "died")] == []
    assert not (mesh.state / "run" / "up.json").exists()


def test_ctrl_c_with_an_open_subscription_stops_as_fast(start_mesh: Start) -> None:
    mesh = start_mesh()
    mesh.wait_for("ready")
    host, port = mesh.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as reader:
        reader.sendall(f"GET /subscribe/orders HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode())
        assert reader.recv(1024).startswith(b"HTTP/1.1 200")
        mesh.interrupt()
        assert mesh.wait() == 0


def test_ctrl_c_during_the_start_leaves_nothing_behind(start_mesh: Start) -> None:
    mesh = start_mesh()
    mesh.wait_for("starting")
    mesh.interrupt()
    assert mesh.wait() == 0, mesh.errors()


@pytest.mark.parametrize("service", SERVICES)
def test_a_killed_service_is_named_and_restarted_while_the_others_go_on(
    mesh: Any, topic: str, service: str
) -> None:
    assert mesh.publish(topic, "before")[0] == 200
    before = {name: mesh.pid_of(name) for name in SERVICES}
    seen = len(mesh.events)
    mesh.kill(service)
    died = mesh.wait_for("died", service, after=seen)
    assert "was killed by SIGKILL" in died["text"]
    after = {name: mesh.pid_of(name) for name in SERVICES}
    assert {name for name in SERVICES if before[name] != after[name]} == {service}
    _until_committed(mesh, topic)
    assert mesh.messages(topic)[0]["message"] == "before"


def test_services_do_not_outlive_an_up_that_was_killed(start_mesh: Start) -> None:
    mesh = start_mesh()
    mesh.wait_for("ready")
    mesh.publish("orders", 1)
    pids = [mesh.pid_of(service) for service in SERVICES]
    os.kill(mesh.pid, signal.SIGKILL)
    mesh.wait()
    again = start_mesh()
    again.wait_for("ready")
    assert not any(alive(pid) for pid in pids)
    assert again.publish("orders", 2)[1]["offset"] == 1


def _until_committed(mesh: Any, topic: str) -> None:
    """A restarted service may need a moment until the others have found it again."""
    end = time.monotonic() + 30
    while True:
        status, document = mesh.publish(topic, "after", "?timeout_ms=5000")
        if status == 200:
            return
        assert time.monotonic() < end, (status, document)
        time.sleep(0.1)
