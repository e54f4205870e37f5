import json
from typing import Any

CHANNEL = {
    "id": "mail",
    "name": "Mail service",
    "destination_host": "::1",
    "destination_port": 8025,
    "path": "/in",
    "tls": True,
    "version": 1,
}


def test_they_are_listed_shown_set_and_deleted(command: Any, peer: Any) -> None:
    peer.answer("GET /channels", 200, {"channels": [CHANNEL]})
    peer.answer("GET /channels/mail", 200, CHANNEL)
    peer.answer("PUT /channels/mail", 201, CHANNEL)
    peer.answers["DELETE /channels/mail"] = (204, b"")
    listed = command("channels", "list", "--url", peer.url)
    assert "https://[::1]:8025/in" in listed.stdout
    assert json.loads(command("channels", "show", "mail", "--json", "--url", peer.url).stdout) == (
        CHANNEL
    )
    made = command("channels", "set", "mail", "::1", "8025", "--tls", "--url", peer.url)
    assert made.returncode == 0, made.stderr
    assert peer.asked[-1].document == {
        "destination_host": "::1",
        "destination_port": 8025,
        "path": "/",
        "tls": True,
    }
    assert command("channels", "delete", "mail", "--url", peer.url).stdout == "Deleted mail.\n"


def test_an_empty_list_says_so_and_a_refusal_why(command: Any, peer: Any) -> None:
    peer.answer("GET /channels", 200, {"channels": []})
    assert command("channels", "list", "--url", peer.url).stdout == "There are no channels.\n"
    problem = {"title": "Forbidden", "detail": "127.0.0.1:9000 is Sidegate's own"}
    peer.answer("PUT /channels/x", 403, problem)
    result = command("channels", "set", "x", "127.0.0.1", "9000", "--url", peer.url)
    assert result.returncode == 1
    assert "Sidegate's own" in result.stderr
