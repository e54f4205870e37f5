"""Replay joins live delivery with no gap and no duplicate, whatever the order of events."""

from hypothesis import given, settings
from hypothesis import strategies as st

from core_log.api.streams import READ_BYTES_MAX, Broadcast, Reader, Verdict
from core_log.log.results import Committed


class Model:
    """A log, the commits not yet told, and one reader: all that the decisions depend on."""

    def __init__(self, partitions: int, credit: int) -> None:
        self.log: dict[int, list[tuple[int, int, int]]] = {n: [] for n in range(partitions)}
        self.untold: list[tuple[int, int, int, int]] = []
        self.reader = Reader(dict.fromkeys(range(partitions), 0), credit)
        self.got: dict[int, list[tuple[int, int, int]]] = {n: [] for n in range(partitions)}
        self.lowest_credit = credit

    def end(self, partition: int) -> int:
        batches = self.log[partition]
        return batches[-1][1] if batches else 0

    def commit(self, partition: int, count: int, length: int) -> None:
        base = self.end(partition)
        self.log[partition].append((base, base + count, length))
        self.untold.append((partition, base, base + count, length))

    def tell(self, *, room: bool) -> None:
        if self.untold:
            partition, base, following, length = self.untold.pop(0)
            before = self.reader.credit
            verdict = self.reader.offer(partition, base, following, length, room=room)
            if verdict is Verdict.SEND:
                assert before > 0
                assert room
                self.got[partition].append((base, following, length))

    def serve(self) -> None:
        due = self.reader.due()
        if due is None:
            return
        assert self.reader.credit > 0
        partition, offset, bytes_max = due
        if self.reader.caught_up(partition, self.end(partition)):
            return
        taken: list[tuple[int, int, int]] = []
        for batch in self.log[partition]:
            if batch[1] > offset:
                if taken and sum(each[2] for each in taken) + batch[2] > bytes_max:
                    break
                taken.append(batch)
        self.got[partition] += taken
        self.reader.took(partition, taken[-1][1], sum(each[2] for each in taken))


EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("commit"), st.integers(0, 2), st.integers(1, 3), st.integers(1, 50)),
        st.tuples(st.just("tell"), st.booleans()),
        st.tuples(st.just("serve")),
        st.tuples(st.just("grant"), st.integers(1, 200)),
    ),
    max_size=120,
)


@settings(max_examples=200)
@given(st.integers(0, 100), EVENTS)
def test_every_frame_is_handed_out_exactly_once_and_in_order(
    credit: int, events: list[tuple[object, ...]]
) -> None:
    model = Model(3, credit)
    for name, *details in events:
        if name == "commit":
            model.commit(*details)  # type: ignore[arg-type]
        elif name == "tell":
            model.tell(room=bool(details[0]))
        elif name == "serve":
            model.serve()
        else:
            model.reader.grant(details[0])  # type: ignore[arg-type]
        for partition, batches in model.got.items():
            assert batches == model.log[partition][: len(batches)]
        assert model.reader.credit > -51, "credit falls below zero by less than one frame"
    # Once it has credit and nothing else happens, the reader gets everything there is.
    model.reader.grant(10**9)
    while model.untold:
        model.tell(room=True)
    for _ in range(len(events) * 4 + 8):
        model.serve()
    assert model.got == model.log
    assert list(model.reader.behind) == []


def test_a_reader_without_credit_or_room_falls_behind_and_costs_nothing() -> None:
    reader = Reader({0: 0}, credit=0)
    assert reader.caught_up(0, 0)
    assert reader.offer(0, 0, 5, 100, room=True) is Verdict.LAG
    assert reader.offer(0, 5, 9, 100, room=True) is Verdict.SKIP
    assert reader.due() is None
    reader.grant(1)
    assert reader.due() == (0, 0, 1)
    reader.took(0, 9, 200)
    assert reader.credit == -199
    assert reader.caught_up(0, 9)
    reader.grant(1000)
    assert reader.offer(0, 9, 10, 10, room=False) is Verdict.LAG


def test_a_commit_that_was_read_already_is_skipped() -> None:
    reader = Reader({0: 3}, credit=1000)
    assert reader.caught_up(0, 3)
    assert reader.offer(0, 0, 3, 10, room=True) is Verdict.SKIP
    assert reader.offer(1, 0, 3, 10, room=True) is Verdict.SKIP, "not its partition"
    assert reader.offer(0, 2, 5, 10, room=True) is Verdict.SEND, "it begins within this batch"
    assert reader.positions == {0: 5}


def test_a_commit_beyond_the_position_is_read_from_the_log_instead() -> None:
    reader = Reader({0: 0}, credit=1000)
    assert reader.caught_up(0, 0)
    assert reader.offer(0, 4, 5, 10, room=True) is Verdict.LAG
    assert list(reader.behind) == [0]


def test_partitions_that_are_behind_take_turns_in_bounded_portions() -> None:
    reader = Reader({0: 0, 1: 0}, credit=10**9)
    turns = []
    for _ in range(4):
        due = reader.due()
        assert due is not None
        assert due.bytes_max == READ_BYTES_MAX
        turns.append(due.partition)
        reader.took(due.partition, due.offset + 1, 10)
    assert turns == [0, 1, 0, 1]


def test_a_partition_can_be_added_and_is_then_behind() -> None:
    reader = Reader({0: 7}, credit=1)
    assert reader.caught_up(0, 7)
    reader.add_partition(1, 2)
    reader.add_partition(0, 0)
    assert reader.positions == {0: 7, 1: 2}
    assert list(reader.behind) == [1]


class Ear:
    def __init__(self, *, wants: bool = True) -> None:
        self.heard: list[bytes] = []
        self.flushed = 0
        self.wants = wants

    def offer(self, batch: Committed) -> bool:
        self.heard.append(batch.frame)
        return self.wants

    def flush(self) -> None:
        self.flushed += 1


def commit(topic: str, partition: int, frame: bytes) -> Committed:
    return Committed(topic, partition, 0, 1, 0, 0, frame)


def test_every_listener_gets_the_very_same_bytes_object() -> None:
    broadcast = Broadcast()
    ears = [Ear() for _ in range(3)]
    for ear in ears:
        broadcast.add("orders", [0, 1], ear)
    frame = b"frame" * 1000
    broadcast.publish([commit("orders", 1, frame)])
    assert all(ear.heard[0] is frame for ear in ears)


def test_a_listener_acts_once_for_a_whole_group_and_only_if_it_wants_to() -> None:
    broadcast = Broadcast()
    ear, deaf = Ear(), Ear(wants=False)
    broadcast.add("orders", [0], ear)
    broadcast.add("orders", [0], deaf)
    broadcast.publish(
        [commit("orders", 0, b"a"), commit("other", 0, b"b"), commit("orders", 0, b"c")]
    )
    assert ear.heard == deaf.heard == [b"a", b"c"]
    assert (ear.flushed, deaf.flushed) == (1, 0)


def test_a_listener_may_leave_while_a_group_is_being_told() -> None:
    broadcast = Broadcast()
    staying = Ear()

    class Leaving(Ear):
        def offer(self, batch: Committed) -> bool:
            broadcast.remove("orders", [0], self)
            return super().offer(batch)

    leaving = Leaving()
    broadcast.add("orders", [0], leaving)
    broadcast.add("orders", [0], staying)
    broadcast.publish([commit("orders", 0, b"a"), commit("orders", 0, b"b")])
    assert leaving.heard == [b"a"]
    assert staying.heard == [b"a", b"b"]
    broadcast.remove("orders", [0], staying)
    broadcast.publish([commit("orders", 0, b"c")])
    assert staying.heard == [b"a", b"b"]
