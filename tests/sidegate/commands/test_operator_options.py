from typing import Any

SECRET = "s" * 64


def test_the_secret_is_sent_as_a_bearer_token_and_never_printed(command: Any, peer: Any) -> None:
    (command.folder / "secret").write_text(SECRET + "\n")
    peer.answer("GET /decisions", 401, {"title": "Not an operator", "status": 401})
    done = command("decisions", "--admin", peer.url, "--secret", "secret")
    assert done.returncode == 1
    assert "Not an operator" in done.stderr
    assert peer.asked[0].headers["Authorization"] == f"Bearer {SECRET}"
    assert SECRET not in done.stdout + done.stderr


def test_port_and_secret_may_come_from_the_environment(command: Any, peer: Any) -> None:
    import os

    (command.folder / "secret").write_text(SECRET)
    peer.answer("GET /decisions", 200, {"decisions": []})
    named = {"SIDEGATE_ADMIN_URL": peer.url, "SIDEGATE_ADMIN_SECRET_FILE": "secret"}
    assert command("decisions", environ={**os.environ, **named}).returncode == 0


def test_without_a_mesh_or_a_secret_it_says_what_to_name(command: Any) -> None:
    done = command("decisions")
    assert done.returncode == 2
    assert "make up" in done.stderr
    assert "--secret" in done.stderr


def test_where_nothing_listens_it_could_not_run(command: Any) -> None:
    (command.folder / "secret").write_text(SECRET)
    for url in ("http://127.0.0.1:1", "nonsense"):
        done = command("decisions", "--admin", url, "--secret", "secret")
        assert done.returncode == 2
        assert "--admin" in done.stderr


def test_a_refusal_is_json_where_that_is_asked_for(command: Any, peer: Any) -> None:
    (command.folder / "secret").write_text(SECRET)
    peer.answer("GET /decisions", 403, {"title": "Not from here", "status": 403})
    done = command("decisions", "--json", "--admin", peer.url, "--secret", "secret")
    assert done.returncode == 1
    assert '"title": "Not from here"' in done.stderr
