"""One line an event, machine-readable or human-readable, and never a secret."""

import io
import json
import logging
import os
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hosting.logs import (
    REDACTED,
    JsonFormatter,
    TerminalFormatter,
    configure_logging,
    is_secret_name,
    redact,
    request_id,
)

JWT = "eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJ4In0.c2lnbmF0dXJl"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def _restored() -> Iterator[None]:
    """Puts the process's logging back, because `configure_logging` is for whole processes."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    own = logging.getLogger("sidegate").level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.getLogger("sidegate").setLevel(own)
    logging.captureWarnings(capture=False)


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def record(message: str, *args: object, **fields: object) -> logging.LogRecord:
    made = logging.LogRecord("sidegate.core", logging.INFO, "x.py", 1, message, args, None)
    made.fields = fields
    return made


def formatted(made: logging.LogRecord) -> dict[str, Any]:
    line = JsonFormatter("core").format(made)
    assert "\n" not in line
    parsed: dict[str, Any] = json.loads(line)
    return parsed


@pytest.mark.usefixtures("_restored")
def test_each_event_is_one_json_object_on_one_line() -> None:
    stream = io.StringIO()
    configure_logging("core", "info", stream)
    log = logging.getLogger("sidegate.core")
    log.debug("not shown")
    log.info("segment\nsealed", extra={"fields": {"bytes": 3, "path": "a"}})
    [line] = lines(stream)
    assert line.pop("ts").endswith("Z")
    assert line == {
        "level": "info",
        "service": "core",
        "logger": "sidegate.core",
        "event": "segment\nsealed",
        "bytes": 3,
        "path": "a",
    }


@pytest.mark.usefixtures("_restored")
def test_configuring_again_replaces_what_was_configured() -> None:
    first, second = io.StringIO(), io.StringIO()
    configure_logging("core", "info", first)
    configure_logging("core", "debug", second)
    logging.getLogger("sidegate.core").debug("once")
    assert (len(lines(first)), len(lines(second))) == (0, 1)


@pytest.mark.usefixtures("_restored")
def test_libraries_are_heard_from_warnings_on() -> None:
    stream = io.StringIO()
    configure_logging("core", "debug", stream)
    logging.getLogger("some.library").info("chatter")
    logging.getLogger("some.library").warning("trouble")
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn("old", DeprecationWarning, stacklevel=1)
    assert [line["logger"] for line in lines(stream)] == ["some.library", "py.warnings"]


def test_the_time_is_utc_with_microseconds() -> None:
    made = record("x")
    made.created = 1_767_225_600.25
    assert formatted(made)["ts"] == "2026-01-01T00:00:00.250000Z"


def test_lines_carry_the_id_of_the_request_they_belong_to() -> None:
    token = request_id.set("r-1")
    try:
        assert formatted(record("x"))["request_id"] == "r-1"
    finally:
        request_id.reset(token)
    assert "request_id" not in formatted(record("x"))


def test_an_exception_is_a_field_of_its_line() -> None:
    try:
        raise ValueError("broken")
    except ValueError as error:
        made = record("failed")
        made.exc_info = (type(error), error, error.__traceback__)
    line = formatted(made)
    assert line["exception"].startswith("Traceback")
    assert line["exception"].endswith("ValueError: broken")


def test_a_field_can_not_pass_itself_off_as_the_event() -> None:
    line = formatted(record("real", event="forged", level="error"))
    assert (line["event"], line["level"]) == ("real", "info")


@pytest.mark.parametrize(
    "name",
    [
        "token",
        "Authorization",
        "secret",
        "password",
        "key_material",
        "access_token",
        "client-secret",
    ],
)
def test_a_field_of_a_secret_name_is_never_printed(name: str) -> None:
    assert is_secret_name(name)
    assert formatted(record("x", **{name: "s3cr3t"}))[name] == REDACTED
    assert "s3cr3t" not in TerminalFormatter(colour=False).format(record("x", **{name: "s3cr3t"}))


@pytest.mark.parametrize("name", ["key", "token_id", "topic", "secrets_total"])
def test_a_field_of_another_name_is_printed(name: str) -> None:
    assert formatted(record("x", **{name: "v"}))[name] == "v"


def test_secrets_are_found_inside_values_too() -> None:
    assert redact({"a": [{"token": "s"}], "b": ("x",)}) == {"a": [{"token": REDACTED}], "b": ["x"]}


@pytest.mark.parametrize(
    "text",
    [
        f"Authorization: Bearer {JWT}",
        f"refused {JWT} of app",
        "Basic dXNlcjpwYXNzd29yZA==",
        "-----BEGIN EC PRIVATE KEY-----\nMHcCAQEEIIr\n-----END EC PRIVATE KEY-----",
        "-----BEGIN PRIVATE KEY-----\nMHcCAQEEIIr",
    ],
)
def test_what_looks_like_a_secret_is_cut_out_of_texts(text: str) -> None:
    for line in (
        JsonFormatter("core").format(record(text)),
        JsonFormatter("core").format(record("x", note=text)),
        TerminalFormatter(colour=False).format(record("%s", text)),
    ):
        assert REDACTED in line
        assert not any(part in line for part in (JWT, "dXNlcjpwYXNzd29yZA", "MHcCAQ"))


def test_a_secret_in_an_exception_is_cut_out() -> None:
    try:
        raise ValueError(f"bad header Bearer {JWT}")
    except ValueError as error:
        made = record("failed")
        made.exc_info = (type(error), error, error.__traceback__)
    assert JWT not in JsonFormatter("core").format(made)


def test_values_that_json_does_not_know_are_shown_as_text() -> None:
    line = formatted(record("x", a=b"\xff\x00", b={1: {2}}, c=float("inf"), d=os.stat_result))
    assert line["a"] == "\\xff\x00"
    assert line["b"] == {"1": [2]}


def test_a_value_without_end_is_cut() -> None:
    endless: dict[str, Any] = {}
    endless["again"] = endless
    assert "event" in formatted(record("x", endless=endless))


VALUES = st.text(max_size=20) | st.binary(max_size=20) | st.floats()


@given(st.dictionaries(st.text(max_size=20), VALUES | st.lists(VALUES, max_size=3), max_size=3))
def test_no_field_breaks_a_line(fields: dict[str, Any]) -> None:
    made = record("x")
    made.fields = fields
    JsonFormatter("core").format(made).encode()
    assert "\n" not in TerminalFormatter(colour=True).format(made)


@pytest.mark.usefixtures("_restored")
def test_a_terminal_gets_readable_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    stream = Terminal()
    configure_logging("core", "info", stream)
    extra = {"fields": {"site": "api", "note": "two words", "n": 3}}
    logging.getLogger("sidegate.core").warning("refused", extra=extra)
    assert stream.getvalue()[9:] == "warning  core: refused  site=api note='two words' n=3\n"


@pytest.mark.usefixtures("_restored")
def test_a_terminal_gets_colour_unless_it_asks_for_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    stream = Terminal()
    configure_logging("core", "info", stream)
    logging.getLogger("sidegate.core").error("broken")
    assert "\033[31m" in stream.getvalue()


def test_no_field_can_send_commands_to_a_terminal() -> None:
    line = TerminalFormatter(colour=False).format(record("a\033[2Jb\rc", evil="\033]0;x\007\n"))
    assert not any(ord(character) < 32 for character in line)


def test_a_terminal_gets_the_traceback_below_its_line() -> None:
    try:
        raise ValueError("broken")
    except ValueError as error:
        made = record("failed")
        made.exc_info = (type(error), error, error.__traceback__)
    shown = TerminalFormatter(colour=False).format(made).splitlines()
    assert shown[1].startswith("Traceback")
    assert shown[-1] == "ValueError: broken"
