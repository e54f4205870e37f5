"""The members of one subscription."""

from core_log.subscriptions.members import IN_FLIGHT_MAX, Member, Members


def test_members_are_found_by_session_and_by_name() -> None:
    members = Members()
    one = Member(1, "a", 0, 10.0)
    members.add(one)
    assert (members.get(1), members.named("a"), len(members), list(members)) == (one, one, 1, [one])
    assert members.remove(1) is one
    assert (members.get(1), members.named("a"), members.remove(1)) == (None, None, None)


def test_a_member_that_is_heard_of_keeps_its_lease() -> None:
    members = Members()
    assert members.next_silent(5.0) is None
    members.add(Member(1, "a", 0, 10.0))
    members.add(Member(2, "b", 0, 11.0))
    assert members.next_silent(5.0) == 15.0
    members.heard(1, 14.0)
    members.heard(3, 14.0)
    assert [each.name for each in members.silent(16.0, 5.0)] == ["b"]
    assert members.next_silent(5.0) == 16.0


def test_a_member_takes_so_much_and_no_more() -> None:
    member = Member(1, "a", 0, 0.0, in_flight=IN_FLIGHT_MAX - 1)
    assert not member.full
    member.in_flight += 1
    assert member.full
