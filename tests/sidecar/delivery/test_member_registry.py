"""Whoever settles by HTTP finds the stream that has the message in hand."""

from sidecar.delivery.member_registry import MemberRegistry


class Stream:
    """Has these in hand, as (partition, offset)."""

    def __init__(self, *in_hand):
        self.in_hand = set(in_hand)
        self.session = self
        self.flushed = 0

    def ack(self, partition, ranges):
        done = {
            (partition, offset) for first, last in ranges for offset in range(first, last + 1)
        } & self.in_hand
        self.in_hand -= done
        return len(done)

    def nack(self, partition, offsets, delay_ms):
        return [each for each in offsets if self.ack(partition, [(each, each)])]

    async def flush(self):
        self.flushed += 1


async def test_it_finds_the_streams_of_a_subscription_by_owner_and_name():
    registry = MemberRegistry()
    mine, other, theirs = Stream((0, 1), (0, 2)), Stream((1, 1)), Stream((0, 1))
    registry.add(None, "mailer", mine)
    registry.add(None, "mailer", other)
    registry.add("billing", "mailer", theirs)
    assert registry.ack(None, "mailer", 0, [(1, 1)]) == 1
    assert registry.ack(None, "mailer", 0, [(1, 1)]) == 0
    assert registry.nack(None, "mailer", 1, iter([2, 1]), 100) == [2]
    assert registry.ack("billing", "mailer", 0, [(0, 9)]) == 1
    assert registry.ack(None, "unknown", 0, [(0, 9)]) == 0
    await registry.flush(None, "mailer")
    assert (mine.flushed, other.flushed, theirs.flushed) == (1, 1, 0)


def test_who_has_gone_is_not_found():
    registry = MemberRegistry()
    stream = Stream((0, 1))
    registry.add(None, "mailer", stream)
    registry.remove(None, "mailer", stream)
    registry.remove(None, "mailer", stream)
    assert registry.readers(None, "mailer") == []
