import socket
import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidegate import client
from sidegate.client import Answer, Connection, Event, Refused, Unreachable, parse_events


class TestConnection:
    def test_a_question_is_answered(self, peer: Any) -> None:
        peer.answer("POST /publish", 200, {"offset": 7})
        with Connection(peer.url) as connection:
            answer = connection.request("POST", "/publish", {"topic": "orders", "message": "é"})
            assert answer.ok
            assert answer.document() == {"offset": 7}
        (asked,) = peer.asked
        assert asked.document == {"topic": "orders", "message": "é"}
        assert asked.headers["Content-Type"] == "application/json"

    def test_bytes_are_sent_as_they_are(self, peer: Any) -> None:
        peer.answer("POST /token", 200, {})
        form = {"Content-Type": "application/x-www-form-urlencoded"}
        with Connection(peer.url) as connection:
            assert connection.request("POST", "/token", b"a=1&b=2", form).ok
        (asked,) = peer.asked
        assert asked.body == b"a=1&b=2"
        assert asked.headers["Content-Type"] == form["Content-Type"]

    def test_one_connection_serves_many_questions(self, peer: Any) -> None:
        peer.answer("GET /status", 200, {})
        with Connection(peer.url) as connection:
            for _ in range(3):
                assert connection.request("GET", "/status").ok

    def test_nobody_there_is_unreachable(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as unused:
            port = unused.getsockname()[1]
        with pytest.raises(Unreachable, match=f"127.0.0.1:{port}"):
            Connection(f"http://127.0.0.1:{port}").request("GET", "/")

    def test_a_peer_that_speaks_no_http_is_unreachable(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as server:
            thread = threading.Thread(target=_say_nonsense, args=[server])
            thread.start()
            url = f"http://127.0.0.1:{server.getsockname()[1]}"
            with Connection(url) as connection, pytest.raises(Unreachable):
                connection.request("GET", "/")
            thread.join()

    @pytest.mark.parametrize("url", ["127.0.0.1:9000", "ftp://x", "", "http://"])
    def test_what_is_no_address_is_said_so(self, url: str) -> None:
        with pytest.raises(Unreachable, match="address"):
            Connection(url)

    def test_events_come_one_by_one(self, peer: Any) -> None:
        peer.stream = b": hello\n\nid: 1\ndata: one\n\nid: 2\ndata: two\n\n"
        with Connection(peer.url) as connection:
            assert [event.data for event in connection.events("/subscribe/orders")] == [
                "one",
                "two",
            ]

    def test_a_refused_stream_says_why(self, peer: Any) -> None:
        peer.answer("GET /subscribe/orders", 403, {"title": "Denied", "detail": "rule D1"})
        with Connection(peer.url) as connection, pytest.raises(Refused, match="Denied: rule D1"):
            list(connection.events("/subscribe/orders"))


def _say_nonsense(server: socket.socket) -> None:
    accepted, _ = server.accept()
    with accepted:
        accepted.recv(100)
        accepted.sendall(b"\x15\x03\x01\x00\x02\x02\x16\r\n\r\n")


class TestAnswer:
    def test_a_problem_names_title_detail_and_decision(self) -> None:
        body = b'{"title": "Denied", "detail": "rule D1", "decision_id": "d-7"}'
        assert Answer(403, {}, body).problem() == "Denied: rule D1 (decision d-7)"

    def test_an_answer_that_is_no_problem_document_is_told_by_its_status(self) -> None:
        for body in (b"", b"<html>", b"[]", b'{"x": 1}'):
            assert Answer(502, {}, body).problem() == "HTTP status 502"

    @pytest.mark.parametrize("status", [200, 204, 299])
    def test_the_200s_are_ok(self, status: int) -> None:
        assert Answer(status, {}, b"").ok

    @pytest.mark.parametrize("status", [199, 300, 403, 500])
    def test_the_others_are_not(self, status: int) -> None:
        assert not Answer(status, {}, b"").ok


class TestParseEvents:
    def test_fields_comments_and_blank_lines_are_read_as_the_standard_says(self) -> None:
        lines = [
            b": a comment\r\n",
            b"\r\n",
            b"event: message\r\n",
            b"id:7\r\n",
            b"data: one\r\n",
            b"data:two\r\n",
            b"retry: 10\r\n",
            b"\r\n",
            b"data\n",
            b"\n",
            b"id: 8\n",
            b"\n",
            b"data: unfinished\n",
        ]
        assert list(parse_events(iter(lines))) == [
            Event("7", "message", "one\ntwo"),
            Event("7", None, ""),
        ]

    @given(st.lists(st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]))))
    def test_every_text_survives(self, texts: list[str]) -> None:
        lines = [line for text in texts for line in (f"data: {text}\n".encode(), b"\n")]
        assert [event.data for event in parse_events(iter(lines))] == texts


def test_idle_connections_are_opened_anew_before_the_server_closes_them() -> None:
    assert client.IDLE_S_MAX < 15
