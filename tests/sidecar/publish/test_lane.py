"""The lane's promise under every order of events: nothing lost, nothing doubled, order kept."""

from dataclasses import dataclass, field

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from log_format.frame import decode_frame
from sidecar.errors import SidecarError
from sidecar.publish.backlog import Backlog
from sidecar.publish.batch import Ack, Committed, Entry, Kept, Lines, stored_batch
from sidecar.publish.flight import Flight
from sidecar.publish.lane import Lane, LaneLimits
from sidecar.publish.message import Message
from sidecar.publish.numbering import CountedOrders
from sidecar.publish.producer import ProducerEpoch
from sidecar.publish.refusals import refusal_error
from sidecar.publish.results import AppendResult, Verdict, refusal
from sidecar.publish.settlement import LATE_S_MAX, Settled

LIMITS = LaneLimits(ring_entries_max=64, ring_bytes_max=1 << 20, batch_bytes_max=120, linger_s=0.0)


@dataclass
class ModelLog:
    """One partition by the wire's rules for producers; remembers the last 16 batches of each."""

    values: list[int] = field(default_factory=list)
    producers: dict[int, tuple[int, int, list[tuple[int, int, bytes, int]]]] = field(
        default_factory=dict
    )

    def append(self, raw: bytes) -> AppendResult:
        frame = decode_frame(raw)
        frame.check_hash()
        part = frame.envelope.producer
        epoch, expected, recent = self.producers.get(part.producer_id, (-1, 0, []))
        if part.epoch < epoch:
            return refusal("fenced", {})
        if part.epoch > epoch:
            epoch, expected, recent = part.epoch, 0, []
        if part.first_sequence > expected:
            return refusal("sequence_gap", {})
        if part.first_sequence < expected:
            for first, count, digest, offset in recent:
                if first == part.first_sequence:
                    assert (count, digest) == (part.count, part.body_sha256), "number used twice"
                    return AppendResult(Verdict.COMMITTED, offset, "committed")
            return refusal("duplicate_too_old", {})
        offset = len(self.values)
        self.values += [int(value or b"") for value in frame.columns().value]
        recent = [*recent, (part.first_sequence, part.count, part.body_sha256, offset)][-16:]
        self.producers[part.producer_id] = (epoch, expected + part.count, recent)
        return AppendResult(Verdict.COMMITTED, offset, "committed")


class CountedEpochs:
    """Epochs that never come twice, over all runs."""

    def __init__(self) -> None:
        self.current = ProducerEpoch(7, 0)

    def raise_epoch(self) -> ProducerEpoch:
        self.current = ProducerEpoch(self.current.producer_id, self.current.epoch + 1)
        return self.current

    def replace_id(self) -> ProducerEpoch:
        self.current = ProducerEpoch(self.current.producer_id + 1, 0)
        return self.current


CODES = st.lists(
    st.sampled_from(
        ["ok", "ok", "ok", "denied", "over_quota", "overloaded", "down", "down_after", "down_late"]
    ),
    min_size=5,
    max_size=5,
)


SIZES = st.sampled_from([1, 1, 1 << 20])
"""With room for one byte a request carries one batch, so that several are under way together."""


@dataclass(eq=False)
class UnderWay:
    """A request that has left; `results` once it has reached the log."""

    flight: Flight
    frames: list[bytes]
    results: list[AppendResult] | None = None


class LaneMachine(RuleBasedStateMachine):
    """Messages are numbers in the order of their acceptance; the log must rise strictly."""

    @initialize()
    def begin(self) -> None:
        self.log = ModelLog()
        self.epochs = CountedEpochs()
        self.disk: dict[int, tuple[int, bytes]] = {}
        self.marked: set[int] = set()
        self.unmarked: list[int] = []
        self.limbo: list[tuple[float, bytes]] = []
        self.under_way: list[UnderWay] = []
        self.writing: list[tuple[object, bytes]] = []
        self.orders = CountedOrders()
        self.next_number = 0
        self.next_position = 1
        self.promised: set[int] = set()
        self.never: set[int] = set()
        self.rejected: set[int] = set()
        self.offsets: dict[int, int] = {}
        self.now = 0.0
        self._new_lane()

    def teardown(self) -> None:
        if hasattr(self, "log"):
            self.finish()

    def _new_lane(self) -> None:
        self.epochs.raise_epoch()
        self.lane = Lane("t", 0, self.epochs, LIMITS, self.orders)

    def _reply(self, number: int, count: int):
        def reply(outcome) -> None:
            if isinstance(outcome, Committed):
                for index in range(count):
                    self.offsets[number + index] = outcome.offset + index
            if isinstance(outcome, Committed | Kept):
                self.promised.update(range(number, number + count))

        return reply

    @rule(ack=st.sampled_from(Ack), count=st.integers(1, 4), lines=st.booleans())
    def offer(self, ack: Ack, count: int, lines: bool) -> None:
        if lines:
            values = [b"%d" % (self.next_number + index) for index in range(count)]
            payload = Lines("t", b"\n".join(values), count, 1)
            entries = [(payload, count)]
        else:
            entries = [
                (Message("t", b"%d" % (self.next_number + index), 1), 1) for index in range(count)
            ]
        for payload, size in entries:
            entry = Entry(payload, ack, self._reply(self.next_number, size))
            if self.lane.offer(entry, self.now):
                self.next_number += size

    @rule()
    def begin_store(self) -> None:
        self.lane.close_all()
        for batch in self.lane.to_store():
            batch.storing = True
            self.writing.append((batch, batch.frame))

    @rule()
    def end_store(self) -> None:
        for batch, frame in self.writing:
            position, self.next_position = self.next_position, self.next_position + 1
            self.disk[position] = (batch.order, frame)
            self._mark(self.lane.stored(batch, position, frame))
            if not batch.resolved:
                for entry in batch.entries:
                    entry.keep = entry.ack in (Ack.AUTO, Ack.SIDECAR)
                    entry.answer_stored()
        self.writing.clear()
        self.lane.shelve(0.0)

    def _mark(self, positions: list[int]) -> None:
        self.unmarked += positions
        self.lane.unsynced += len(positions)

    @rule()
    def sync_marks(self) -> None:
        self.lane.done_synced(len(self.unmarked))
        self.marked.update(self.unmarked)
        self.unmarked.clear()

    @precondition(lambda self: self.lane.wants_refill())
    @rule()
    def refill(self) -> None:
        positions = self.lane.begin_refill()
        self.lane.end_refill([self._read(position) for position in positions])

    def _read(self, position: int):
        order, raw = self.disk[position]
        return stored_batch(decode_frame(raw), raw, position, order)

    def _loaded(self, bytes_max: int):
        self.now += 7.0
        due = self.lane.due_at()
        return None if due is None or due > self.now else self.lane.load(bytes_max)

    @rule(bytes_max=SIZES)
    def a_request_departs(self, bytes_max: int) -> None:
        flight = self._loaded(bytes_max)
        if flight:
            self.under_way.append(UnderWay(flight, [batch.frame for batch in flight.batches]))

    @rule(ack=st.sampled_from(Ack))
    def a_burst_departs(self, ack: Ack) -> None:
        """Several batches, each in a request of its own, all under way together."""
        for _ in range(3):
            self.offer(ack, 4, lines=False)
        for _ in range(3):
            self.a_request_departs(1)

    @precondition(lambda self: any(each.results is None for each in self.under_way))
    @rule(data=st.data(), codes=CODES)
    def a_request_arrives(self, data, codes: list[str]) -> None:
        """In any order: requests of one lane may overtake each other on the way."""
        waiting = [each for each in self.under_way if each.results is None]
        request = data.draw(st.sampled_from(waiting))
        request.results = self._judged(request.frames, codes)

    @precondition(lambda self: any(each.results is not None for each in self.under_way))
    @rule(data=st.data())
    def an_answer_comes_back(self, data) -> None:
        answered = [each for each in self.under_way if each.results is not None]
        request = data.draw(st.sampled_from(answered))
        self.under_way.remove(request)
        self._settle(request.flight, request.results)

    @precondition(lambda self: self.under_way)
    @rule(data=st.data(), late=st.booleans())
    def an_answer_is_lost(self, data, late: bool) -> None:
        request = data.draw(st.sampled_from(self.under_way))
        self.under_way.remove(request)
        if request.results is None and late:
            self.limbo += [(self.now, frame) for frame in request.frames]
        self._lost(request.flight, Verdict.DOUBT)

    @precondition(lambda self: any(each.results is None for each in self.under_way))
    @rule(data=st.data())
    def a_request_never_left(self, data) -> None:
        waiting = [each for each in self.under_way if each.results is None]
        request = data.draw(st.sampled_from(waiting))
        self.under_way.remove(request)
        self._lost(request.flight, Verdict.UNSENT)

    @precondition(lambda self: self.limbo)
    @rule()
    def a_late_request_arrives(self) -> None:
        for sent_at, raw in self.limbo:
            if self.now < sent_at + LATE_S_MAX:
                self.log.append(raw)
        self.limbo.clear()

    @rule(codes=CODES, bytes_max=SIZES)
    def send(self, codes: list[str], bytes_max: int) -> None:
        flight = self._loaded(bytes_max)
        if flight:
            results = self._judged([batch.frame for batch in flight.batches], codes)
            self._settle(flight, results)

    def _judged(self, frames: list[bytes], codes: list[str]) -> list[AppendResult]:
        results = []
        quota = False
        for frame, code in zip(frames, codes, strict=False):
            quota = quota or code == "over_quota"
            if quota:
                results.append(refusal("over_quota", {}))
            elif code == "denied":
                results.append(refusal("denied", {}))
            elif code == "overloaded":
                results.append(refusal("overloaded", {"retry_after_ms": 100}))
            elif code == "down":
                results.append(refusal("unavailable", {}))
            elif code == "down_late":
                # The gatekeeper gives up, while what it forwarded is still on its way.
                self.limbo.append((self.now, frame))
                results.append(refusal("unavailable", {}))
            else:
                result = self.log.append(frame)
                results.append(refusal("unavailable", {}) if code == "down_after" else result)
        return results

    def _lost(self, flight: Flight, verdict: Verdict) -> None:
        self._settle(flight, [AppendResult(verdict)] * len(flight.batches))

    def _settle(self, flight: Flight, results: list[AppendResult]) -> None:
        self._note(self.lane.settle(flight, results, self.now))

    def _note(self, settled: list[Settled]) -> None:
        for each in settled:
            batch, result = each.batch, each.result
            if result.verdict is Verdict.COMMITTED:
                batch.answer_committed(result.base_offset, result.durability)
            elif result.verdict is not Verdict.COMMITTED_UNPLACED:
                numbers = {int(v or b"") for v in decode_frame(batch.frame).columns().value}
                # One that is on disk may come back after a crash, until its mark is there too.
                if not (batch.doubtful or batch.storing or batch.position or batch.replaces):
                    self.never |= numbers
                self.rejected |= numbers
                batch.answer_all(refusal_error(batch, result))
            positions = [*batch.replaces]
            if batch.position is not None:
                positions.append(batch.position)
            batch.position, batch.replaces = None, []
            self._mark(positions)

    @precondition(lambda self: not (self.limbo or self.disk or self.writing))
    @rule()
    def somebody_else_uses_the_producer_id(self) -> None:
        """Only while nothing is in doubt: of a fenced batch nobody can tell where it is."""
        if not any(batch.doubtful for batch in self.lane.each_batch()) and not self.under_way:
            owner = self.epochs.current
            self.log.producers[owner.producer_id] = (owner.epoch + 9, 0, [])

    @rule()
    def the_link_goes_down(self) -> None:
        back = []
        for entry in self.lane.abandon():
            if entry.ack is Ack.CORE and entry.reply is not None:
                self.never |= set(_numbers(entry))
                entry.answer(SidecarError("never sent"))
            else:
                back.append(entry)
        self.lane.put_back(back)

    @rule(marks_survive=st.booleans(), write_survives=st.booleans(), late=st.booleans())
    def crash(self, marks_survive: bool, write_survives: bool, late: bool) -> None:
        for request in self.under_way:
            if request.results is None and late:
                self.limbo += [(self.now, frame) for frame in request.frames]
        self.under_way.clear()
        if write_survives:
            for batch, frame in self.writing:
                position, self.next_position = self.next_position, self.next_position + 1
                self.disk[position] = (batch.order, frame)
        self.writing.clear()
        if marks_survive:
            self.marked.update(self.unmarked)
        self.unmarked.clear()
        for position in self.marked:
            self.disk.pop(position, None)
        self._new_lane()
        backlog = Backlog()
        for position, (order, _raw) in self.disk.items():
            backlog.add(order, position, 0, 1)
        places, superseded = backlog.resolve()
        self.lane.inherit(places, self.now)
        self._mark(superseded)

    @invariant()
    def the_log_rises_strictly(self) -> None:
        if hasattr(self, "log"):
            assert self.log.values == sorted(set(self.log.values)), self.log.values

    @invariant()
    def answered_offsets_are_true(self) -> None:
        if hasattr(self, "log"):
            for number, offset in self.offsets.items():
                assert self.log.values[offset] == number

    def finish(self) -> None:
        """Let everything go well; then every promise must have been kept."""
        for request in list(self.under_way):
            self._lost(request.flight, Verdict.DOUBT)
        self.under_way.clear()
        for _ in range(10_000):
            if self.lane.empty:
                break
            self.begin_store()
            self.end_store()
            self.sync_marks()
            if self.lane.wants_refill():
                self.refill()
            self.send(["ok"] * 5, 1 << 20)
        assert self.lane.empty
        self.the_log_rises_strictly()
        self.answered_offsets_are_true()
        stored = set(self.log.values)
        assert self.promised - self.rejected <= stored, self.promised - self.rejected - stored
        assert not self.never & stored, self.never & stored


def _numbers(entry: Entry) -> list[int]:
    if isinstance(entry.payload, Lines):
        return [int(value) for value in entry.payload.text.split(b"\n")]
    return [int(entry.payload.value)]


LaneMachine.TestCase.settings = settings(
    max_examples=150,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
TestLane = LaneMachine.TestCase
