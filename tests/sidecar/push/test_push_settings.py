"""Settings of a push: what is refused, what is kept, and that no secret is among it."""

import msgspec
import pytest

from sidecar.errors import BadRequest
from sidecar.push.push_settings import (
    DeadLetter,
    Push,
    Rerun,
    Retry,
    SecretHeader,
    Settings,
    check_push,
    check_retry,
    read_settings,
    stored_settings,
)

URL = "http://127.0.0.1:8080/"


def test_settings_survive_the_log():
    settings = Settings(
        push=Push(url=URL, method="PUT", headers={"X-A": "b"}, secret_file=["a", "b"]),
        retry=Retry(max_attempts=None, first_ms=7),
        dead_letter=DeadLetter("orders.dead"),
        filter="true",
        rerun=Rerun("redrive", "mailer", {"0": 17}),
        redriven={"0": 3},
    )
    assert read_settings(stored_settings(settings)) == settings
    assert read_settings({}) == Settings()


def test_settings_of_another_version_are_not_guessed_at():
    with pytest.raises(BadRequest, match="settings"):
        read_settings({"push": {"url": URL, "teleport": True}})
    with pytest.raises(BadRequest):
        read_settings(None)


@pytest.mark.parametrize(
    ("push", "field"),
    [
        (Push(), "push"),
        (Push(url=URL, channel="c"), "push"),
        (Push(url=URL, headers={"a b": "c"}), "push.headers.a b"),
        (Push(url=URL, headers={"Host": "c"}), "push.headers.Host"),
        (Push(url=URL, headers={"Content-Length": "1"}), "push.headers.Content-Length"),
        (Push(url=URL, headers={"webhook-id": "1"}), "push.headers.webhook-id"),
        (Push(url=URL, headers={"Sidegate-Topic": "1"}), "push.headers.Sidegate-Topic"),
        (Push(url=URL, headers={"X": "a\r\nb"}), "push.headers.X"),
        (Push(url=URL, headers={"Authorization": "Bearer x"}), "push.headers.Authorization"),
        (Push(url=URL, headers={"X": SecretHeader("../x")}), "push.headers.X.secret_file"),
        (Push(url=URL, headers={f"X-{n}": "" for n in range(33)}), "push.headers"),
        (Push(url=URL, secret_file=[]), "push.secret_file"),
        (Push(url=URL, secret_file=["a", "b", "c"]), "push.secret_file"),
        (Push(url=URL, secret_file="a/b"), "push.secret_file"),
        (Push(url=URL, secret_file=".."), "push.secret_file"),
    ],
)
def test_a_push_that_cannot_be_is_refused_by_field(push, field):
    with pytest.raises(BadRequest) as caught:
        check_push(push)
    assert caught.value.members["field"] == field


def test_a_secret_header_is_a_file():
    check_push(Push(url=URL, headers={"Authorization": SecretHeader("token")}))


def test_waits_must_make_sense():
    with pytest.raises(BadRequest, match=r"retry\.max_ms"):
        check_retry(Retry(first_ms=100, max_ms=50))


@pytest.mark.parametrize(
    ("retry", "attempts", "waits"),
    [
        ({}, 10, True),
        ({"max_attempts": 3}, 3, False),
        ({"max_attempts": 3, "unreachable": "wait"}, 3, True),
        ({"unreachable": "count"}, 10, False),
        ({"max_attempts": None}, None, False),
    ],
)
def test_whoever_names_max_attempts_has_every_try_counted(retry, attempts, waits):
    patience = Settings(retry=msgspec.convert(retry, Retry)).patience
    assert (patience.max_attempts, patience.waits_unreached) == (attempts, waits)
    assert (patience.backoff.first_s, patience.backoff.max_s) == (0.5, 60.0)


def test_fire_and_forget_is_one_try():
    patience = Settings(fire_and_forget=True, retry=Retry(max_attempts=7)).patience
    assert (patience.max_attempts, patience.waits_unreached) == (1, False)
