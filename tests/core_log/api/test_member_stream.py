"""A member's stream: what its owner is told, and what comes again."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from core_log.api.member_stream import Again, MemberStream, extent_of
from core_log.api.stream import StreamEnded, StreamTotals
from core_log.api.streams import Broadcast
from core_log.control.topic_log import TopicLog
from core_log.control.topics import Definition, Topic
from core_log.control.waiting import first_of
from core_log.log.embedded import EmbeddedEngine
from core_log.log.options import LogOptions
from core_log.subscriptions.tries import Tries, Try


class Told:
    """An owner that notes what it hears."""

    def __init__(self) -> None:
        self.given: list[tuple[int, int]] = []
        self.gaps: list[tuple[int, int, int]] = []
        self.readies = 0

    def gave(self, session: int, partition: int, next_offset: int) -> None:
        assert session == 1
        self.given.append((partition, next_offset))

    def skipped(self, partition: int, first: int, end: int) -> None:
        self.gaps.append((partition, first, end))

    def ready(self) -> None:
        self.readies += 1

    def attempts_of(
        self, _partition: int, offsets: Sequence[int]
    ) -> tuple[dict[int, int], dict[int, Tries]]:
        tries = (Try(1, 7, 500, "the app answered 500"),)
        return dict.fromkeys(offsets, 2), dict.fromkeys(offsets, tries)


class Wire:
    """An outlet that keeps what it is sent; `room` is the test's to decide."""

    room = True

    def __init__(self) -> None:
        self.sent: list[bytes] = []

    def send_frames(self, frames: Sequence[bytes]) -> None:
        self.sent += frames

    def send_text(self, text: bytes) -> None:
        self.sent.append(text)

    async def drained(self) -> None:
        self.room = True


@pytest.fixture
async def kit(tmp_path: Path, frames: Any) -> Any:
    engine = await EmbeddedEngine.open(
        tmp_path, LogOptions(disk_reserve_bytes=0), on_failure=lambda _: None
    )
    topic = Topic(Definition("orders"), 1, 1, (0,))
    for number in range(4):
        await engine.append([frames.frame("orders", [b"%d" % number] * 2)])
    told, wire = Told(), Wire()
    stream = MemberStream(
        1, told, TopicLog(topic, engine), wire, Broadcast(), StreamTotals(), credit=10**6
    )
    yield stream, told, wire, engine
    stream.close()
    await engine.close()


async def serve(stream: MemberStream) -> None:
    """Let it do what is due."""
    stream._wake.set()
    await first_of(stream.run(), timeout_s=0.05)


async def test_it_reads_what_is_assigned_and_tells_how_far_it_got(kit: Any, frames: Any) -> None:
    stream, told, wire, _ = kit
    stream.assign(0, 3)
    await serve(stream)
    assert [frames.offset(frame) for frame in wire.sent] == [2, 4, 6]
    assert told.given == [(0, 8)]


async def test_it_reads_nothing_of_what_was_taken_away(kit: Any) -> None:
    stream, _, wire, _ = kit
    stream.assign(0, 0)
    stream.send_again(Again(0, 7, (1,)))
    stream.revoke(0)
    await serve(stream)
    assert wire.sent == []


async def test_it_stops_for_a_full_member_a_held_partition_and_a_pause(kit: Any) -> None:
    stream, _, wire, _ = kit
    stream.assign(0, 0)
    stream.hold(0, held=True)
    await serve(stream)
    stream.hold(0, held=False)
    stream.stop(full=True, paused=False)
    await serve(stream)
    assert wire.sent == []
    stream.send_again(Again(0, 7, (1,)))
    await serve(stream)
    assert len(wire.sent) == 2, "what was given back comes all the same"
    stream.stop(full=False, paused=True)
    stream.send_again(Again(0, 7, (1,)))
    await serve(stream)
    assert len(wire.sent) == 2
    stream.stop(full=False, paused=False)
    await serve(stream)
    assert len(wire.sent) == 4 + 4


async def test_messages_of_several_frames_come_again_frame_by_frame(kit: Any, frames: Any) -> None:
    stream, _, wire, _ = kit
    stream.send_again(Again(0, 7, (0, 1, 5)))
    await serve(stream)
    assert b'"offsets":[0,1]' in wire.sent[0]
    assert b'"attempts":{"0":2,"1":2}' in wire.sent[0]
    assert b'"history":{"0":[{"number":1' in wire.sent[0]
    assert b'"offsets":[5]' in wire.sent[2]
    assert [frames.offset(wire.sent[at]) for at in (1, 3)] == [0, 4]


async def test_it_says_when_it_can_take_more(kit: Any) -> None:
    stream, told, wire, _ = kit
    stream.grant(5)
    assert told.readies == 1
    wire.room = False
    assert not stream.takes
    stream.hand(b"{}", b"frame")
    await serve(stream)
    assert (told.readies, stream.takes) == (2, True)


async def test_it_ends_with_the_first_reason(kit: Any) -> None:
    stream, _, _, _ = kit
    stream.end("lease_expired", "silent")
    stream.end("internal", "later")
    with pytest.raises(StreamEnded) as caught:
        await stream.run()
    assert caught.value.code == "lease_expired"


async def test_a_stored_frame_says_where_it_lies(kit: Any, frames: Any) -> None:
    _, _, _, engine = kit
    result = await engine.read("orders", 0, 5, 1)
    assert extent_of(result.frames[0]) == (4, 6)
    with pytest.raises(ValueError, match="no stamp"):
        extent_of(frames.encoded("orders", [b"x"]))


async def test_a_member_that_talks_and_does_not_listen_is_given_up(
    kit: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream, _, wire, _ = kit
    monkeypatch.setattr("core_log.api.member_stream.UNHEARD_MAX", 3)
    wire.room = False
    for _ in range(3):
        stream.say(b"{}")
    wire.room = True
    stream.say(b"{}")
    wire.room = False
    for _ in range(4):
        stream.say(b"{}")
    with pytest.raises(StreamEnded) as caught:
        await stream.run()
    assert caught.value.code == "stalled"
