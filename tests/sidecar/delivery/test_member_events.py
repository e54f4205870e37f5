"""What happens to a member are values that can be compared and matched."""

from sidecar.delivery.holdings import Hold
from sidecar.delivery.member_events import Changed, Membership, Paused, Revoked


def test_a_membership_creates_nothing_unless_it_says_so():
    assert Membership("mailer", "m1") == Membership("mailer", "m1", owner=None, create=None)


def test_events_are_told_apart_by_their_kind_and_hold():
    revoked = Revoked(Hold(0, generation=7), may_finish=True)
    assert revoked != Revoked(Hold(0, generation=8), may_finish=True)
    match revoked:
        case Revoked(Hold(partition, generation)):
            assert (partition, generation) == (0, 7)
    assert Paused(paused=True) != Paused(paused=False)
    assert Changed() == Changed()
