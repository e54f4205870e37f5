import json
import socket
import subprocess
import sys
from typing import Any

import pytest

DEAD = "http://127.0.0.1:1"


def test_nothing_to_talk_to_exits_with_2_and_says_what_to_do(command: Any) -> None:
    result = command("topics", "list", "--url", DEAD)
    assert result.returncode == 2
    assert "make up" in result.stderr


def test_the_variable_names_the_sidecar(command: Any, peer: Any) -> None:
    peer.answer("GET /topics", 200, {"topics": []})
    assert command("topics", "list", environ={"SIDEGATE_URL": peer.url}).returncode == 0
    assert len(peer.asked) == 1


def test_the_running_mesh_of_this_folder_is_found_wherever_its_port_is(
    command: Any, peer: Any
) -> None:
    peer.answer("GET /topics", 200, {"topics": []})
    run = command.folder / ".sidegate" / "run"
    run.mkdir(parents=True)
    (run / "up.json").write_text(json.dumps({"url": peer.url}))
    assert command("topics", "list", environ={}).returncode == 0
    assert len(peer.asked) == 1


def test_a_refusal_exits_with_1_and_gives_the_sidecars_reason(command: Any, peer: Any) -> None:
    problem = {"title": "Denied", "detail": "rule D1 denies it", "decision_id": "d-1"}
    peer.answer("GET /topics", 403, problem)
    result = command("topics", "list", "--url", peer.url)
    assert result.returncode == 1
    assert "Denied: rule D1 denies it (decision d-1)" in result.stderr
    result = command("topics", "list", "--url", peer.url, "--json")
    assert result.returncode == 1
    assert json.loads(result.stderr) == problem


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("unknown_topic", "`sidegate topics list`"),
        ("unknown_subscription", "`sidegate subscriptions list`"),
        ("unknown_channel", "`sidegate channels list`"),
    ],
)
def test_a_misspelt_name_is_answered_with_where_the_names_are(
    command: Any, peer: Any, code: str, said: str
) -> None:
    peer.answer("GET /topics/oders", 404, {"title": "No such thing", "code": code})
    result = command("topics", "describe", "oders", "--url", peer.url)
    assert result.returncode == 1
    assert "No such thing" in result.stderr
    assert said in result.stderr


def test_a_sidecar_that_is_no_address_is_named(command: Any) -> None:
    result = command("topics", "list", "--url", "9000")
    assert result.returncode == 2
    assert "'9000'" in result.stderr


def test_a_command_that_is_shown_can_be_pasted(command: Any) -> None:
    environ = {"PATH": "/nonexistent"}
    shown = command("service", "list", environ=environ).stdout
    assert f"{sys.executable} -m sidegate service add NAME" in shown
    script = command.folder / "bin" / "sidegate"
    script.parent.mkdir()
    script.write_text(f"#!{sys.executable}\nfrom sidegate.__main__ import main\nmain()\n")
    script.chmod(0o755)
    for path, name in (("/nonexistent", "bin/sidegate"), (str(script.parent), "sidegate")):
        result = subprocess.run(
            ["bin/sidegate", "service", "list"],
            cwd=command.folder,
            env={"PATH": path},
            capture_output=True,
            text=True,
            check=True,
        )
        assert f"`{name} service add NAME`" in result.stdout


def test_no_default_port_is_used_by_these_tests() -> None:
    with socket.socket() as unused:
        assert unused.fileno() > 0
    assert ":9000" not in DEAD


def test_a_sidecar_that_asks_for_its_apps_token_gets_it(command: Any, peer: Any) -> None:
    peer.answer("GET /topics", 200, {"topics": []})
    file = command.folder / "token"
    file.write_text("a secret of 16 or more\n".replace(" ", "-"))
    environ = {"SIDEGATE_SIDECAR_APP_TOKEN": str(file)}
    assert command("topics", "list", "--url", peer.url, environ=environ).returncode == 0
    assert peer.asked[-1].headers["Authorization"] == "Bearer a-secret-of-16-or-more"
    command("topics", "list", "--url", peer.url)
    assert "Authorization" not in peer.asked[-1].headers
    file.unlink()
    result = command("topics", "list", "--url", peer.url, environ=environ)
    assert result.returncode == 2
    assert "SIDEGATE_SIDECAR_APP_TOKEN" in result.stderr
