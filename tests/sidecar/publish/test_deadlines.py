"""Whoever still waits when the time is up is found, and nobody else."""

from hypothesis import given
from hypothesis import strategies as st

from sidecar.publish.batch import Ack, Entry
from sidecar.publish.deadlines import Deadlines
from sidecar.publish.message import Message


def waiting():
    return Entry(Message("t", b"", 0), Ack.CORE, lambda _: None)


def test_an_entry_expires_at_its_deadline_and_once():
    deadlines, entry = Deadlines(), waiting()
    deadlines.add(entry, now=10.0, patience_s=5.0)
    assert deadlines.sweep(14.9) == []
    assert deadlines
    assert deadlines.sweep(15.0) == [entry]
    assert deadlines.sweep(99.0) == []
    assert not deadlines


def test_an_answered_entry_does_not_expire_and_is_forgotten():
    deadlines, entry = Deadlines(), waiting()
    deadlines.add(entry, now=0.0, patience_s=5.0)
    entry.reply = None
    assert deadlines.sweep(1.0) == []
    assert not deadlines


def test_an_impatient_entry_does_not_wait_behind_a_patient_one():
    deadlines, patient, impatient = Deadlines(), waiting(), waiting()
    deadlines.add(patient, now=0.0, patience_s=100.0)
    deadlines.add(impatient, now=0.0, patience_s=1.0)
    assert deadlines.sweep(1.0) == [impatient]


@given(
    st.lists(
        st.tuples(st.integers(0, 5), st.sampled_from([1.0, 3.0, 10.0]), st.booleans()), max_size=40
    ),
    st.lists(st.integers(1, 6), max_size=30),
)
def test_every_sweep_finds_exactly_those_whose_time_is_up(arrivals, steps):
    deadlines, model, now = Deadlines(), {}, 0.0
    for gap, patience_s, answered in arrivals:
        now += gap
        entry = waiting()
        deadlines.add(entry, now, patience_s)
        assert entry.deadline == now + patience_s
        if answered:
            entry.reply = None
        else:
            model[entry] = now + patience_s
    for step in steps:
        now += step
        due = {entry for entry, deadline in model.items() if deadline <= now}
        found = deadlines.sweep(now)
        assert set(found) == due
        assert len(found) == len(due)
        for entry in due:
            del model[entry]
    assert bool(deadlines) >= bool(model)
