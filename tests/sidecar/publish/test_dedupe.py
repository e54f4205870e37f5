"""The window of ids, without files and network."""

from hypothesis import given
from hypothesis import strategies as st

from sidecar.publish.batch import Ack, Committed, Entry
from sidecar.publish.dedupe import KEY_BYTES, DedupeWindow, Seen, Stage, dedupe_key
from sidecar.publish.message import Message

PLACE = Committed("t", 3, 17, "a", "committed")


def key(number):
    return dedupe_key("t", b"%d" % number)


def test_a_key_tells_topic_and_id_apart():
    keys = {
        dedupe_key("a", b"b"),
        dedupe_key("ab", b""),
        dedupe_key("a", b"c"),
        dedupe_key("b", b"b"),
    }
    assert len(keys) == 4
    assert all(len(each) == KEY_BYTES for each in keys)


def test_an_id_is_known_until_it_is_too_old():
    window = DedupeWindow(10, 60.0)
    window.done(key(1), PLACE, 100.0)
    seen = window.find(key(1), 160.0)
    assert (seen.stage, seen.partition, seen.offset) == (Stage.DONE, 3, 17)
    assert window.find(key(1), 160.1) is None
    assert window.find(key(2), 100.0) is None


def test_an_open_id_is_never_too_old_and_never_makes_room():
    window = DedupeWindow(2, 60.0)
    window.put(key(0), Seen(Stage.PENDING, 0.0))
    for number in range(1, 5):
        window.done(key(number), PLACE, 0.0)
    assert window.find(key(0), 1e9) is not None


@given(st.lists(st.integers(0, 30)))
def test_the_window_holds_the_newest_ids_and_no_more(numbers):
    window = DedupeWindow(5, 1e9)
    for number in numbers:
        window.done(key(number), PLACE, 0.0)
    newest = list(dict.fromkeys(reversed(numbers)))[:5]
    assert len(window) == len(newest)
    assert all(window.find(key(number), 0.0) for number in newest)


def test_whoever_follows_is_handed_back_once_with_the_outcome():
    window, follower = DedupeWindow(5, 60.0), Entry(Message("t", b"", 0), Ack.CORE, None)
    window.put(key(1), Seen(Stage.PENDING, 0.0, followers=[follower]))
    assert window.done(key(1), PLACE, 1.0) == [follower]
    assert window.done(key(1), PLACE, 1.0) == []
    window.put(key(2), Seen(Stage.PENDING, 0.0, followers=[follower]))
    assert window.forget(key(2)) == [follower]
    assert window.forget(key(2)) == []
    assert window.find(key(2), 0.0) is None
