"""What `/status` says of the link."""

from sidecar.uplink.link_state import LinkState


def test_a_link_that_holds_has_no_reason():
    assert LinkState(True, 1_700_000_000_123_456).document() == {
        "uplink": "connected",
        "uplink_reason": None,
        "uplink_since": "2023-11-14T22:13:20.123Z",
    }


def test_a_link_that_is_down_says_why_and_since_when():
    document = LinkState(False, 0, "nobody answers").document()
    assert document == {
        "uplink": "down",
        "uplink_reason": "nobody answers",
        "uplink_since": "1970-01-01T00:00:00.000Z",
    }
