import asyncio
import logging
import os
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from gatekeeper.policy.decide import Policy
from gatekeeper.policy.reload import POLL_S, SETTLE_S, PolicyFile, Stamp, Watch, observe
from hosting.lifecycle import StartError

GOOD_WAIT_S = 60.0
"""How long a test waits for what takes a second on an idle machine; no test measures it."""


def policy_text(topic: str, expect: str = "allow") -> str:
    return (
        "version: 1\n"
        "issuers: {corp: {issuer: https://idp.example, audience: a}}\n"
        "principals: {app: {spiffe: spiffe://example/app, issuer: corp}}\n"
        f"topics: {{{topic}: {{publish: [app]}}}}\n"
        f"tests: [{{as: app, do: publish, on: {topic}, expect: {expect}}}]\n"
    )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "policy.yaml"
    file.write_text(policy_text("one"))
    return file


class Held:
    """A policy file, what it called, and its metrics."""

    def __init__(self, path: Path, changed: Callable[[Policy], None] | None = None) -> None:
        self.registry = CollectorRegistry()
        self.taken: asyncio.Queue[Policy] = asyncio.Queue()
        self.file = PolicyFile(
            path,
            environment="production",
            registry=self.registry,
            changed=changed or self.taken.put_nowait,
        )

    def metric(self, name: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(name, labels)

    @property
    def topics(self) -> list[str]:
        return [entry.pattern.text for entry in self.file.policy.document.topics]


async def rested(file: PolicyFile, at_s: float = 1e9) -> None:
    """Look twice, as the poll would when the file has come to rest."""
    await file.look(at_s)
    await file.look(at_s + 2 * SETTLE_S)


# ---------------------------------------------------------------- the pure part


def stamp(number: int) -> Stamp:
    return Stamp(1, number, 1, 1, 1)


def test_what_a_look_decides_over_all_states() -> None:
    states = (None, stamp(1), stamp(2))
    for read, seen, now, waited in product(states, states, states, (0.0, 2 * SETTLE_S)):
        watch, due = observe(Watch(read, seen, 10.0), now, 10.0 + waited)
        if now != seen:
            assert (watch, due) == (Watch(read, now, 10.0 + waited), False), "seen, let it rest"
        elif now == read:
            assert (watch, due) == (Watch(read, seen, 10.0), False), "nothing is new"
        elif not waited:
            assert (watch, due) == (Watch(read, seen, 10.0), False), "not yet at rest"
        else:
            assert (watch, due) == (Watch(now, now, 10.0), True), "read it"


def test_a_file_that_keeps_changing_is_not_read() -> None:
    watch = Watch(stamp(0), stamp(0), 0.0)
    for number in range(1, 50):
        watch, due = observe(watch, stamp(number), number * POLL_S)
        assert not due


def test_looking_and_resting_leave_most_of_a_second_for_loading() -> None:
    assert POLL_S + SETTLE_S + POLL_S <= 0.5


# ---------------------------------------------------------------- with real files, step by step


async def test_the_first_policy_is_taken_at_the_start(path: Path) -> None:
    held = Held(path)
    assert not held.file.readiness().ready
    await held.file.start()
    try:
        policy = held.taken.get_nowait()
        assert held.file.policy is policy
        readiness = held.file.readiness()
        assert readiness.ready
        assert readiness.detail["sha256"] == policy.hash.hex()
        assert "warning" not in readiness.detail
        assert held.metric("sidegate_gatekeeper_policy_loads_total", result="taken") == 1
        assert held.metric("sidegate_gatekeeper_policy_rejected") == 0
        loaded_at = held.metric("sidegate_gatekeeper_policy_loaded_timestamp_seconds")
        assert loaded_at == held.file.loaded_at > 0
    finally:
        await held.file.stop()


@pytest.mark.parametrize(
    "text", ["version: 2\n", policy_text("one", "deny"), None], ids=["broken", "failing", "gone"]
)
async def test_a_bad_file_at_the_start_is_a_start_error(path: Path, text: str | None) -> None:
    remove(path) if text is None else write_in_place(path, text)
    held = Held(path)
    with pytest.raises(StartError, match="the policy can't take effect"):
        await held.file.start()
    with pytest.raises(RuntimeError, match="not loaded yet"):
        _ = held.file.policy


def replace_by_rename(path: Path, text: str) -> None:
    beside = path.with_suffix(".new")
    beside.write_text(text)
    beside.replace(path)


def write_in_place(path: Path, text: str) -> None:
    path.write_text(text)


def remove(path: Path) -> None:
    path.unlink()


def swap_a_link(path: Path, text: str) -> None:
    """As Kubernetes changes a mounted ConfigMap: the name is a link that is swapped."""
    target = path.with_name(f"data-{len(list(path.parent.iterdir()))}.yaml")
    target.write_text(text)
    link = path.with_suffix(".link")
    link.symlink_to(target)
    link.replace(path)


WAYS = pytest.mark.parametrize("change", [replace_by_rename, write_in_place, swap_a_link])


async def started(path: Path, **more: Any) -> Held:
    """Loaded, with the poll stopped, so that the test looks when it wants to."""
    held = Held(path, **more)
    await held.file.start()
    await held.file.stop()
    if not held.taken.empty():
        held.taken.get_nowait()
    return held


@WAYS
async def test_a_changed_file_takes_effect_once_it_rests(
    path: Path, change: Callable[[Path, str], None]
) -> None:
    held = await started(path)
    before = held.file.policy
    change(path, policy_text("second"))
    await held.file.look(100.0)
    assert held.file.policy is before
    await held.file.look(100.0 + 2 * SETTLE_S)
    assert held.topics == ["second"]
    assert held.taken.get_nowait() is held.file.policy
    assert held.file.policy.hash != before.hash


@WAYS
@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("version: 1\ntopics: {a: {publsh: []}}\n", 'policy.yaml:2: topics."a": unknown key'),
        (policy_text("second", "deny"), "policy.yaml:5: tests[0]: expected deny, but app may"),
        ("version: 1\nissuers: {dev: {issuer: https://localhost, audience: a}}\n", "development"),
        ("", "policy.yaml:1: the file is empty"),
    ],
    ids=["broken", "failing its tests", "for development", "empty"],
)
async def test_a_bad_file_keeps_the_last_good_policy_and_says_so(
    path: Path,
    change: Callable[[Path, str], None],
    text: str,
    problem: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    held = await started(path)
    before = held.file.policy
    change(path, text)
    with caplog.at_level(logging.ERROR, "sidegate.gatekeeper"):
        await rested(held.file)
    assert held.file.policy is before
    assert held.taken.empty()
    assert held.file.rejection is not None
    assert problem in held.file.rejection.problems[0]
    readiness = held.file.readiness()
    assert readiness.ready
    assert readiness.detail["sha256"] == before.hash.hex()
    assert "last good policy" in str(readiness.detail["warning"])
    assert problem in readiness.detail["problems"][0]  # type: ignore[index]
    assert held.metric("sidegate_gatekeeper_policy_rejected") == 1
    assert held.metric("sidegate_gatekeeper_policy_loads_total", result="refused") == 1
    (record,) = caplog.records
    assert "last good policy stays in force" in record.getMessage()
    assert problem in record.fields["problems"][0]  # type: ignore[attr-defined]


async def test_a_repaired_file_takes_effect_and_clears_the_warning(path: Path) -> None:
    held = await started(path)
    write_in_place(path, "version: 2\n")
    await rested(held.file, 100.0)
    replace_by_rename(path, policy_text("three"))
    await rested(held.file, 200.0)
    assert held.topics == ["three"]
    assert held.file.rejection is None
    assert held.metric("sidegate_gatekeeper_policy_rejected") == 0
    assert "warning" not in held.file.readiness().detail


async def test_a_file_that_comes_back_as_it_was_is_no_change_but_clears_the_warning(
    path: Path,
) -> None:
    held = await started(path)
    before = held.file.policy
    write_in_place(path, "version: 2\n")
    await rested(held.file, 100.0)
    write_in_place(path, policy_text("one"))
    await rested(held.file, 200.0)
    assert held.file.policy is before
    assert held.taken.empty()
    assert held.file.rejection is None


async def test_a_file_that_is_gone_keeps_the_last_good_policy(path: Path) -> None:
    held = await started(path)
    remove(path)
    await rested(held.file, 100.0)
    assert held.topics == ["one"]
    assert held.file.rejection is not None
    assert "can't be read: No such file" in held.file.rejection.problems[0]
    write_in_place(path, policy_text("second"))
    await rested(held.file, 200.0)
    assert held.topics == ["second"]


async def test_the_same_bad_file_is_refused_once_and_not_at_every_look(path: Path) -> None:
    held = await started(path)
    write_in_place(path, "version: 2\n")
    for step in range(10):
        await held.file.look(100.0 + step)
    assert held.metric("sidegate_gatekeeper_policy_loads_total", result="refused") == 1


async def test_what_was_read_at_the_start_is_read_again_at_rest(path: Path) -> None:
    held = await started(path)
    before = held.file.policy
    await rested(held.file)
    assert held.file.policy is before
    assert held.metric("sidegate_gatekeeper_policy_loads_total", result="taken") == 1
    remove(path)
    await rested(held.file, 2e9)
    assert held.file.rejection is not None


async def test_a_touched_file_is_read_and_is_no_change(path: Path) -> None:
    held = await started(path)
    before = held.file.policy
    os.utime(path, (1, 1))
    await rested(held.file)
    assert held.file.policy is before
    assert held.taken.empty()


async def test_a_policy_that_cannot_be_taken_up_leaves_the_one_before(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    refuse: list[bool] = []

    def changed(_: Policy) -> None:
        if refuse:
            raise ValueError("the issuers can't be replaced")

    held = await started(path, changed=changed)
    before = held.file.policy
    refuse.append(True)
    write_in_place(path, policy_text("second"))
    await rested(held.file)
    assert held.file.policy is before
    assert held.file.rejection is not None
    assert "the issuers can't be replaced" in caplog.text


async def test_many_problems_are_cut_in_the_answer_and_counted(path: Path) -> None:
    held = await started(path)
    write_in_place(path, "version: 1\ntopics:\n" + "".join(f"  t{n}: []\n" for n in range(100)))
    await rested(held.file)
    detail = held.file.readiness().detail
    assert len(detail["problems"]) == 20  # type: ignore[arg-type]
    assert detail["problem_count"] == 100


# ---------------------------------------------------------------- by itself


class Heard(logging.Handler):
    """Sets an event when a line of at least this level is logged."""

    def __init__(self, event: asyncio.Event) -> None:
        super().__init__(logging.ERROR)
        self._event = event

    def emit(self, record: logging.LogRecord) -> None:
        self._event.set()


@pytest.fixture
def refused() -> Iterator[asyncio.Event]:
    """Set when a policy file is refused, which is an error line."""
    event = asyncio.Event()
    handler = Heard(event)
    logging.getLogger("sidegate.gatekeeper").addHandler(handler)
    yield event
    logging.getLogger("sidegate.gatekeeper").removeHandler(handler)


async def test_the_watch_takes_up_changes_by_itself_and_stops(
    path: Path, refused: asyncio.Event
) -> None:
    held = Held(path)
    await held.file.start()
    try:
        assert (await held.taken.get()).document.topics[0].pattern.text == "one"
        replace_by_rename(path, policy_text("second"))
        policy = await asyncio.wait_for(held.taken.get(), GOOD_WAIT_S)
        assert policy.document.topics[0].pattern.text == "second"
        write_in_place(path, "version: 2\n")
        await asyncio.wait_for(refused.wait(), GOOD_WAIT_S)
        write_in_place(path, policy_text("three"))
        policy = await asyncio.wait_for(held.taken.get(), GOOD_WAIT_S)
        assert policy.document.topics[0].pattern.text == "three"
        await held.file.drain()
    finally:
        await held.file.stop()
    await held.file.stop()
    assert not [task for task in asyncio.all_tasks() if task.get_name() == "policy file"]
