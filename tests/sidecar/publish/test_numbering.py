"""Owners and numbers: contiguous within an epoch, and epochs that rise along the lane."""

import pytest

from sidecar.publish.batch import Ack, Entry, make_batch
from sidecar.publish.message import Message
from sidecar.publish.numbering import CountedOrders, Numbering
from sidecar.publish.producer import ProducerEpoch


class CountedEpochs:
    def __init__(self):
        self.current = ProducerEpoch(7, 0)

    def raise_epoch(self):
        self.current = ProducerEpoch(self.current.producer_id, self.current.epoch + 1)
        return self.current

    def replace_id(self):
        self.current = ProducerEpoch(self.current.producer_id + 1, 0)
        return self.current


@pytest.fixture
def numbering():
    return Numbering(CountedEpochs(), CountedOrders())


def close(numbering, count=2):
    owner, first, order = numbering.next_place()
    entries = [Entry(Message("t", b"x", 1), Ack.AUTO, None) for _ in range(count)]
    batch = make_batch("t", 0, owner, first, entries, order)
    numbering.used(count)
    return batch


def place(batch):
    return batch.producer.epoch, batch.producer.first_sequence


def test_numbers_are_contiguous_within_an_epoch_and_orders_rise(numbering):
    batches = [close(numbering, count) for count in (2, 1, 3)]
    assert [place(batch) for batch in batches] == [(0, 0), (0, 2), (0, 3)]
    assert [batch.order for batch in batches] == [0, 1, 2]


def test_begun_anew_the_next_batch_has_a_new_epoch_from_zero(numbering):
    close(numbering)
    numbering.begin_anew()
    assert place(close(numbering)) == (1, 0)


def test_what_follows_a_gap_begins_a_new_epoch_and_the_next_batch_goes_on_in_it(numbering):
    _gone, first, second = close(numbering), close(numbering), close(numbering)
    numbering.mend([first, second], more_behind=False)
    assert [place(first), place(second)] == [(1, 0), (1, 2)]
    assert place(close(numbering)) == (1, 4)


def test_with_batches_on_disk_between_they_come_first_and_later_ones_in_a_newer_epoch(numbering):
    _gone, first, on_disk = close(numbering), close(numbering), close(numbering)
    numbering.mend([first], more_behind=True)
    later = close(numbering)
    numbering.mend_one(on_disk)
    numbering.mend_one(later)
    assert [place(first), place(on_disk), place(later)] == [(1, 0), (1, 2), (2, 0)]


def test_a_batch_with_no_gap_before_it_keeps_its_place(numbering):
    batch = close(numbering)
    numbering.mend_one(batch)
    assert place(batch) == (0, 0)


def test_a_replaced_id_is_used_from_the_next_epoch_on(numbering):
    numbering.replace_id()
    numbering.begin_anew()
    assert close(numbering).producer.producer_id == 8
