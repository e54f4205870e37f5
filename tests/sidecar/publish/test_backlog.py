"""What a spool's rows mean at a start: one batch for each order, the newest record of it."""

from hypothesis import given
from hypothesis import strategies as st

from sidecar.publish.backlog import Backlog, Place


def test_batches_are_sent_in_their_order_however_they_lie_in_the_files() -> None:
    backlog = Backlog()
    backlog.add(order=9, position=100, written_us=3_000_000, count=2)
    backlog.add(order=4, position=200, written_us=1_500_000, count=5)
    places, superseded = backlog.resolve()
    assert places == [Place(200, 1.5), Place(100, 3.0)]
    assert superseded == []
    assert backlog.messages(places) == 7


def test_of_two_records_of_a_batch_the_newer_counts_and_the_older_is_of_no_use() -> None:
    backlog = Backlog()
    backlog.add(order=1, position=10, written_us=1, count=3)
    backlog.add(order=2, position=20, written_us=1, count=4)
    backlog.add(order=1, position=30, written_us=2, count=3)
    places, superseded = backlog.resolve()
    assert [place.position for place in places] == [30, 20]
    assert superseded == [10]
    assert backlog.messages(places) == 7, "a batch that is there twice is counted once"


def test_an_empty_backlog_has_nothing_to_send() -> None:
    assert Backlog().resolve() == ([], [])
    assert Backlog().messages([]) == 0


@given(
    st.lists(st.tuples(st.integers(0, 8), st.integers(0, 2**62), st.integers(1, 100)), max_size=30)
)
def test_every_row_is_either_sent_or_superseded_and_no_order_comes_twice(rows) -> None:
    backlog = Backlog()
    by_position = {position: (order, count) for order, position, count in rows}
    for position, (order, count) in by_position.items():
        backlog.add(order, position, position, count)
    places, superseded = backlog.resolve()
    sent = [place.position for place in places]
    assert sorted([*sent, *superseded]) == sorted(by_position)
    orders = [by_position[position][0] for position in sent]
    assert orders == sorted({order for order, _ in by_position.values()})
    for position, order in zip(sent, orders, strict=True):
        assert position == max(p for p, (other, _) in by_position.items() if other == order)
    assert backlog.messages(places) == sum(by_position[position][1] for position in sent)
