"""Appends decided by their envelopes: cut, judge, seal, merge."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from gatekeeper.api.append import (
    FRAMES_MAX,
    BadAppend,
    judge,
    merge,
    seal_allowed,
    split_frames,
    unavailable,
)
from gatekeeper.api.quotas import OverQuota
from gatekeeper.audit.decisions import Ruling
from gatekeeper.identity.identity import Identity
from gatekeeper.provenance import Sealer
from log_format.envelope import add_provenance, add_stamp, decode_envelope, provenance_signed_bytes
from log_format.frame import decode_frame, iter_frames
from log_format.parts import Provenance, Stamp

WHO = Identity(
    "spiffe://example/app", bytes(32), "corp", "https://idp", "billing", "s", "t", frozenset(), 1.0
)
KEY = Ed25519PrivateKey.generate()
SEALER = Sealer(KEY, "spiffe://example/gatekeeper")


def ruling(topic: str, *, allowed: bool = True) -> Ruling:
    return Ruling(
        decision_id=topic.encode().ljust(16, b"-")[:16],
        at_us=1,
        allowed=allowed,
        action="publish",
        topic=topic,
        principal="billing",
        rule="r",
        reason="allowed" if allowed else "no_rule",
        text="no rule allows it",
        policy_hash=bytes(32),
        identity=WHO,
    )


def allow(topic: str) -> Ruling:
    return ruling(topic, allowed=not topic.startswith("forbidden"))


def free(principal: str, messages: int, size: int) -> OverQuota | None:
    return None


def provenance() -> Provenance:
    return SEALER.provenance(ruling("orders"), 5)


def test_the_body_is_cut_into_its_frames_without_a_copy_of_their_bodies(
    frame: Callable[..., bytes],
) -> None:
    whole = frame("a") + frame("b", values=(b"x" * 100, b"y"))
    frames = split_frames(whole)
    assert [item.envelope.producer.topic for item in frames] == ["a", "b"]
    assert isinstance(frames[1].body, memoryview)
    assert frames[1].body.obj is whole


@pytest.mark.parametrize("damage", ["cut", "flipped", "garbage"])
def test_a_body_that_is_no_run_of_frames_is_refused_with_the_frames_number(
    frame: Callable[..., bytes], damage: str
) -> None:
    sound, second = frame("a"), bytearray(frame("b"))
    if damage == "cut":
        second = second[:-8]
    elif damage == "flipped":
        second[30] ^= 1
    else:
        second = bytearray(b"GET / HTTP/1.1\r\n" * 8)
    with pytest.raises(BadAppend, match="frame 1: ") as caught:
        split_frames(bytes(sound + second))
    assert caught.value.members == {"frame": 1}


def test_an_empty_body_and_too_many_frames_are_refused(frame: Callable[..., bytes]) -> None:
    with pytest.raises(BadAppend, match="empty"):
        split_frames(b"")
    one = frame("a")
    assert len(split_frames(one * FRAMES_MAX)) == FRAMES_MAX
    with pytest.raises(BadAppend, match=f"more than {FRAMES_MAX} frames"):
        split_frames(one * (FRAMES_MAX + 1))


@given(st.binary(max_size=400))
def test_no_bytes_crash_the_cutting(data: bytes) -> None:
    with suppress(BadAppend):
        frames = split_frames(data)
        assert sum(item.envelope.frame_len for item in frames) == len(data)


def test_a_batch_that_arrives_with_provenance_or_stamp_is_refused(
    frame: Callable[..., bytes],
) -> None:
    sound = decode_frame(frame("orders"))
    raw = sound.envelope.raw
    with_provenance = add_provenance(raw, provenance())
    with_stamp = add_stamp(raw, Stamp(0, 0, 0, 0))
    with_both = add_stamp(with_provenance, Stamp(0, 0, 0, 0))
    frames = [
        replace(sound, envelope=decode_envelope(bad))
        for bad in (with_provenance, with_stamp, with_both)
    ]
    asked: list[str] = []

    def rule(topic: str) -> Ruling:
        asked.append(topic)
        return allow(topic)

    judged = judge(frames, rule, free)
    assert [item.refusal and item.refusal["error"] for item in judged] == ["bad_frame"] * 3
    assert asked == []


def test_each_topic_is_decided_once_and_each_frame_gets_its_own_result(
    frame: Callable[..., bytes],
) -> None:
    frames = split_frames(frame("a") + frame("forbidden.x") + frame("a", sequence=1))
    asked: list[str] = []

    def rule(topic: str) -> Ruling:
        asked.append(topic)
        return allow(topic)

    judged = judge(frames, rule, free)
    assert asked == ["a", "forbidden.x"]
    assert [item.refusal is None for item in judged] == [True, False, True]
    refusal = judged[1].refusal
    assert refusal is not None
    assert refusal["error"] == "denied"
    assert refusal["reason"] == "no_rule"
    assert refusal["retryable"] is False
    assert refusal["decision_id"] == ruling("forbidden.x").id_text


def test_what_is_behind_a_batch_over_quota_waits_too_and_spends_nothing(
    frame: Callable[..., bytes],
) -> None:
    frames = split_frames(
        frame("a", values=(b"1", b"2", b"3"))
        + frame("a", sequence=3)
        + frame("a", partition=1)
        + frame("a", sequence=0, producer_id=8)
    )
    spent: list[int] = []

    def spend(principal: str, messages: int, size: int) -> OverQuota | None:
        assert principal == "billing"
        spent.append(messages)
        return OverQuota("messages_per_s", 2.0, 0.25) if messages > 2 else None

    judged = judge(frames, allow, spend)
    results = [item.refusal and item.refusal["error"] for item in judged]
    assert results == ["over_quota", "over_quota", None, None]
    assert spent == [3, 1, 1]
    refusal = judged[0].refusal
    assert refusal is not None
    assert refusal["retry_after_ms"] == 250
    assert refusal["retryable"] is True


def test_sealed_frames_are_whole_signed_and_carry_the_very_same_bodies(
    frame: Callable[..., bytes],
) -> None:
    whole = frame("a", values=(b"odd",)) + frame("forbidden.x") + frame("b", values=(b"x" * 64,))
    judged = judge(split_frames(whole), allow, free)
    forwarded = b"".join(part for sealed in seal_allowed(judged, SEALER, 7) for part in sealed)
    before = [item for item in iter_frames(whole) if item.envelope.producer.topic != "forbidden.x"]
    after = list(iter_frames(forwarded))
    assert [bytes(item.body) for item in after] == [bytes(item.body) for item in before]
    for item in after:
        item.check_hash()
        added = item.envelope.provenance
        assert added is not None
        assert added.received_us == 7
        assert added.principal == "billing"
        KEY.public_key().verify(added.signature, provenance_signed_bytes(item.envelope.raw))


def test_results_come_back_in_the_order_of_the_request(frame: Callable[..., bytes]) -> None:
    judged = judge(
        split_frames(frame("forbidden.x") + frame("a") + frame("forbidden.y") + frame("b")),
        allow,
        free,
    )
    merged = merge(judged, [{"topic": "a"}, {"topic": "b"}])
    assert [item["topic"] for item in merged] == ["forbidden.x", "a", "forbidden.y", "b"]
    with pytest.raises(ValueError, match="wrong number"):
        merge(judged, [{}, {}, {}])


def test_a_core_that_answers_too_few_results_is_noticed(frame: Callable[..., bytes]) -> None:
    judged = judge(split_frames(frame("a") + frame("b")), allow, free)
    with pytest.raises(ValueError, match="wrong number"):
        merge(judged, [{}])


def test_what_could_not_be_handed_over_may_be_tried_again(frame: Callable[..., bytes]) -> None:
    (item,) = judge(split_frames(frame("a")), allow, free)
    result: dict[str, Any] = unavailable(item, "down", 1000)
    assert result["error"] == "unavailable"
    assert result["retryable"] is True
    assert result["retry_after_ms"] == 1000
