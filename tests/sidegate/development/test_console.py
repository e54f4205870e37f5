import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidegate.development.console import LINE_BYTES_MAX, Console, Event, Lines, readable


def line(level: str, event: str = "something happened", **facts: object) -> bytes:
    return json.dumps(
        {"ts": "t", "level": level, "service": "core", "event": event, **facts}
    ).encode()


def test_warnings_are_shown_with_the_services_name_and_chatter_is_not(
    capsys: pytest.CaptureFixture[str],
) -> None:
    console = Console()
    console.log_line("core", line("info"))
    console.log_line("core", line("warning", topic="orders", bytes=7))
    assert capsys.readouterr().out == "core       │ something happened  topic=orders bytes=7\n"


def test_verbose_shows_everything(capsys: pytest.CaptureFixture[str]) -> None:
    Console(verbose=True).log_line("core", line("debug", "chatter"))
    assert "chatter" in capsys.readouterr().out


def test_what_is_no_log_line_is_shown_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    Console().log_line("core", b"Traceback (most recent call last):")
    Console().log_line("core", b"[1, 2]")
    Console().log_line("core", b"")
    assert capsys.readouterr().out.splitlines() == [
        "core       │ Traceback (most recent call last):",
        "core       │ [1, 2]",
    ]


def test_a_traceback_stands_below_its_event_with_the_name_on_every_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Console().log_line("core", line("error", exception="one\ntwo"))
    assert capsys.readouterr().out.splitlines() == [
        "core       │ something happened",
        "core       │ one",
        "core       │ two",
    ]


def test_control_characters_of_a_caller_do_not_reach_the_terminal() -> None:
    assert "\x1b" not in readable({"event": "refused", "path": "/\x1b[2J"})


def test_json_events_are_one_object_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    console = Console(as_json=True)
    console.show(Event("ready", "two\nlines", facts={"url": "http://127.0.0.1:1"}))
    console.log_line("core", line("error"))
    first, second = map(json.loads, capsys.readouterr().out.splitlines())
    assert first == {
        "event": "ready",
        "service": None,
        "text": "two\nlines",
        "url": "http://127.0.0.1:1",
    }
    assert second["event"] == "log"
    assert second["line"]["level"] == "error"


@given(st.binary(), st.lists(st.integers(0, 64)))
def test_lines_do_not_depend_on_how_the_bytes_arrive(data: bytes, cuts: list[int]) -> None:
    whole: list[bytes] = []
    pieces: list[bytes] = []
    lines = Lines(whole.append)
    lines.feed(data)
    lines.end()
    lines = Lines(pieces.append)
    for cut in cuts:
        lines.feed(data[:cut])
        data = data[cut:]
    lines.feed(data)
    lines.end()
    assert pieces == whole


def test_a_line_without_end_is_cut() -> None:
    seen: list[bytes] = []
    lines = Lines(seen.append)
    for _ in range(4):
        lines.feed(b"x" * LINE_BYTES_MAX)
    assert len(seen) >= 2
    assert max(map(len, seen)) <= 2 * LINE_BYTES_MAX
