"""`sidegate up` as its user meets it: real processes, real mTLS, real tokens."""

import json
import re
import shlex
import shutil
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sidegate.commands.up import netcat, welcome

ROOT = Path(__file__).parents[3]
Start = Callable[..., Any]
PASTES_MAX = 10


def test_when_it_says_ready_the_first_message_gets_offset_0_and_comes_back(
    start_mesh: Start,
) -> None:
    mesh = start_mesh()
    mesh.wait_for("ready")
    status, published = mesh.publish("orders", {"order_id": 101})
    assert status == 200, published
    assert published["offset"] == 0
    assert published["partition"] == 0
    assert published["durability"] == "committed"
    (received,) = mesh.subscribe("orders", 1)
    assert received["message"] == {"order_id": 101}
    assert received["principal"] == "dev-app"
    assert mesh.request("GET", "/readyz")[0] == 200
    assert mesh.request("GET", "/status")[1]["uplink"] == "connected"


def test_a_denial_can_be_seen(mesh: Any) -> None:
    status, problem = mesh.publish("forbidden.orders", 1)
    assert status == 403
    assert problem["decision_id"]
    assert "D1" in problem["detail"]


def test_a_second_up_finds_the_data_of_the_first(start_mesh: Start) -> None:
    first = start_mesh()
    first.wait_for("ready")
    assert first.publish("orders", "kept")[1]["offset"] == 0
    first.interrupt()
    first.wait()
    second = start_mesh()
    second.wait_for("ready")
    assert [message["message"] for message in second.messages("orders")] == ["kept"]
    assert second.publish("orders", "next")[1]["offset"] == 1


def test_a_second_up_in_the_same_folder_is_told_of_the_first(mesh: Any, start_mesh: Start) -> None:
    second = start_mesh(state=mesh.state)
    assert second.wait() == 1
    assert f"already up in {mesh.state} (pid {mesh.pid}, {mesh.url})" in second.errors()
    assert "make down" in second.errors()
    assert mesh.request("GET", "/readyz")[0] == 200


def test_a_taken_port_is_named_with_how_to_change_it(start_mesh: Start) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = f"127.0.0.1:{other.getsockname()[1]}"
        mesh = start_mesh("--ports", "fixed", environ={**_free(), "SIDEGATE_CORE_LISTEN": taken})
        assert mesh.wait() == 2
    assert f"{taken} is taken, and the core's private API listens there" in mesh.errors()
    assert "SIDEGATE_CORE_LISTEN=127.0.0.1:" in mesh.errors()


def test_a_folder_that_can_not_be_made_is_named_with_what_to_do(
    start_mesh: Start, tmp_path: Path
) -> None:
    (tmp_path / ".sidegate").mkdir()
    (tmp_path / ".sidegate" / "run").write_text("")
    mesh = start_mesh()
    assert mesh.wait() == 2
    assert "is a file where a folder belongs" in mesh.errors()
    assert "--state FOLDER" in mesh.errors()
    assert "Traceback" not in mesh.errors()


def test_a_full_disk_is_named_before_anything_starts(start_mesh: Start) -> None:
    mesh = start_mesh(environ={"SIDEGATE_CORE_LOG__DISK_RESERVE_BYTES": "1024TiB"})
    assert mesh.wait() == 2
    assert "in reserve (log.disk_reserve_bytes)" in mesh.errors()
    assert "free some space" in mesh.errors()


def test_moved_ports_are_found_by_the_other_services(start_mesh: Start) -> None:
    environ = _free()
    mesh = start_mesh("--ports", "fixed", environ=environ)
    mesh.wait_for("ready")
    assert mesh.url == f"http://{environ['SIDEGATE_SIDECAR_LISTEN']}"
    assert mesh.publish("orders", 1)[0] == 200


def test_a_configuration_of_the_users_own_that_is_wrong_ends_the_start(start_mesh: Start) -> None:
    mesh = start_mesh()
    mesh.wait_for("ready")
    mesh.interrupt()
    mesh.wait()
    file = mesh.state / "gatekeeper.yaml"
    file.write_text(file.read_text() + "colour: blue\n")
    mesh = start_mesh()
    assert mesh.wait() == 1
    texts = " ".join(event["text"] for event in mesh.events)
    assert "gatekeeper.yaml" in texts
    assert "colour" in texts
    assert "its configuration is wrong" in texts


def test_the_welcome_holds_lines_that_can_be_pasted() -> None:
    text = welcome("http://127.0.0.1:9100", "127.0.0.1:9101", Path(".sidegate"))
    lines = [line.strip() for line in text.splitlines()]
    publish = next(line for line in lines if line.startswith("curl -s") and "order_id" in line)
    words = subprocess.run(
        ["sh", "-c", f"set -- {publish.removeprefix('curl ')}; printf '%s\\n' \"$@\""],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    assert words[1] == "localhost:9100/publish"
    assert json.loads(words[3]) == {"topic": "orders", "message": {"order_id": 101}}
    assert any("/subscribe/orders?from=earliest" in line for line in lines)
    assert "http://localhost:9100/docs" in lines
    assert netcat("127.0.0.1:9101") in lines
    assert "nc " not in welcome("http://127.0.0.1:9100", None, Path(".sidegate"))


def test_the_netcat_line_of_the_welcome_and_the_docs_works_as_printed(start_mesh: Start) -> None:
    for page in ("README.md", "docs/sidecar.md"):
        assert netcat("127.0.0.1:9001") in (ROOT / page).read_text().splitlines()
    mesh = start_mesh()
    tcp = mesh.wait_for("ready")["tcp"]
    assert tcp == mesh.record()["addresses"]["SIDEGATE_SIDECAR_TCP"]
    line = netcat(tcp)
    if shutil.which("nc") is None:
        # The same bytes by the shell's own sockets.
        if shutil.which("bash") is None:
            pytest.skip("needs nc or bash to paste the line into")
        send, _, _ = line.partition(" | nc ")
        host, _, port = tcp.rpartition(":")
        line = f"exec 3<>/dev/tcp/{host}/{port}; {send} >&3; timeout 2 cat <&3"
        line = f"bash -c {shlex.quote(line)}"
    # It waits a second for the answer, as a busy machine may not; then it is pasted again.
    for _ in range(PASTES_MAX):
        done = subprocess.run(["sh", "-c", line], capture_output=True, check=False, timeout=30)
        if re.fullmatch(rb'OK \d+\r\nMSG 0 16\r\n\{"order_id":101\}', done.stdout):
            return
    pytest.fail(f"{line} printed {done.stdout!r} {done.stderr!r}")


def test_a_taken_tcp_port_is_named_with_how_to_change_it(start_mesh: Start) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = f"127.0.0.1:{other.getsockname()[1]}"
        mesh = start_mesh("--ports", "fixed", environ={**_free(), "SIDEGATE_SIDECAR_TCP": taken})
        assert mesh.wait() == 2
    assert f"{taken} is taken, and the sidecar's TCP port for apps listens there" in mesh.errors()
    assert "SIDEGATE_SIDECAR_TCP=127.0.0.1:" in mesh.errors()


def test_the_docs_page_of_the_welcome_is_there(mesh: Any) -> None:
    assert mesh.request("GET", "/docs")[0] in (200, 301, 302, 308)


def _free() -> dict[str, str]:
    from sidegate.development import addresses

    return addresses.variables(addresses.free_addresses())
