import os
import subprocess
import sys

import pytest

from sidegate.commands.live import plain, silence

FOLLOWER = """
import time
from sidegate.commands.live import ends_with_reader
try:
    with ends_with_reader():
        print("first", flush=True)
        time.sleep(250)
except KeyboardInterrupt:
    raise SystemExit(7)
"""


BACKGROUND = """
import signal
signal.signal(signal.SIGINT, signal.SIG_IGN)
"""
"""As a shell starts a job in the background."""
MISSED = """
import signal
heard = []
def second(*args):
    heard.append(args)
    if len(heard) > 1:
        raise KeyboardInterrupt
signal.default_int_handler = second
"""
"""The first signal has no effect, as one that comes just before its receiver begins to wait."""


@pytest.mark.parametrize("before", ["", BACKGROUND, MISSED], ids=["usual", "background", "missed"])
def test_who_waits_for_a_message_ends_when_the_reader_is_gone(before: str) -> None:
    read, write = os.pipe()
    with os.fdopen(read, "rb") as reader:
        process = subprocess.Popen([sys.executable, "-c", before + FOLLOWER], stdout=write)
        os.close(write)
        assert reader.readline() == b"first\n"
    assert process.wait() == 7


def test_an_output_that_stays_open_ends_nothing() -> None:
    program = FOLLOWER.replace("time.sleep(250)", "time.sleep(0.2)")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (0, b"first\n")


@pytest.mark.parametrize(
    ("start", "said"),
    [
        (None, "sidegate tail oders --from earliest"),
        ("latest", "sidegate tail oders --from earliest"),
        ("earliest", "`sidegate topics list`"),
    ],
)
def test_a_silent_terminal_gets_a_word(
    capsys: pytest.CaptureFixture[str], start: str | None, said: str
) -> None:
    word = silence("oders", start, "tail")
    word.interval = 0.0
    word.start()
    word.join()
    assert said in capsys.readouterr().err


def test_what_was_published_does_nothing_to_a_terminal() -> None:
    assert plain("ü\n\x1b[2J\x9b") == "ü\\u000a\\u001b[2J\\u009b"
