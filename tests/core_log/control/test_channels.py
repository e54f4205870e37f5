"""Channels: named destinations."""

from dataclasses import replace

import pytest

from core_log.control import channels
from core_log.control.channels import (
    BadChannel,
    Channel,
    ChannelChanged,
    ChannelExists,
    TooManyChannels,
    channel_json,
    channel_record,
    parse_channel,
    parse_channel_record,
    put,
)

MAIL = Channel("billing", "mail", "Mail", "localhost", 8025, "/in", tls=True, version=3)
SENT = {"id": "mail", "destination_host": "localhost", "destination_port": 8025}


def test_a_minimal_channel_gets_the_defaults() -> None:
    made = parse_channel(SENT, "billing")
    assert made == Channel("billing", "mail", "mail", "localhost", 8025, "/", tls=False, version=0)


def test_the_path_may_name_it() -> None:
    body = {"destination_host": "::1", "destination_port": 1}
    assert parse_channel(body, "b", channel="mail").id == "mail"
    assert parse_channel({**body, "id": "mail"}, "b", channel="mail").id == "mail"
    with pytest.raises(BadChannel, match="id: must be 'mail', as in the path"):
        parse_channel({**body, "id": "other"}, "b", channel="mail")


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"id": "a/b"}, "id: must be a name"),
        ({"destination_host": ""}, "destination_host: must be"),
        ({"destination_host": "a b"}, "destination_host: must be"),
        ({"destination_host": "user@host"}, "destination_host: must be"),
        ({"destination_port": 0}, "destination_port: must be an integer between 1 and 65535"),
        ({"destination_port": "80"}, "destination_port: must be"),
        ({"path": "in"}, "path: must begin with /"),
        ({"path": "/a\r\nHost: x"}, "path: must begin with /"),
        ({"tls": 1}, "tls: must be true or false"),
        ({"url": "x"}, "url: is not known here"),
    ],
)
def test_what_is_wrong_is_named(change: dict[str, object], problem: str) -> None:
    with pytest.raises(BadChannel) as caught:
        parse_channel({**SENT, **change}, "billing")
    assert problem in str(caught.value)


def test_a_record_reads_back_as_itself_and_the_wire_does_not_name_the_owner() -> None:
    assert parse_channel_record(channel_record(MAIL)) == MAIL
    assert "owner" not in channel_json(MAIL)


def test_the_same_again_is_nothing_and_another_needs_a_put() -> None:
    have = {MAIL.key: MAIL}
    same, other = replace(MAIL, version=0), replace(MAIL, version=0, port=1, name="M")
    assert put(have, same, replaces=False, if_version=None, version=9) is None
    with pytest.raises(ChannelExists) as caught:
        put(have, other, replaces=False, if_version=None, version=9)
    assert caught.value.members["differs"] == ["name", "destination_port"]
    made = put(have, other, replaces=True, if_version=3, version=9)
    assert made == replace(other, version=9)


def test_another_version_than_the_callers_is_refused() -> None:
    with pytest.raises(ChannelChanged):
        put({MAIL.key: MAIL}, MAIL, replaces=True, if_version=2, version=9)
    with pytest.raises(ChannelChanged):
        put({}, MAIL, replaces=True, if_version=2, version=9)


def test_channels_are_limited_for_each_and_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channels, "OWNER_CHANNELS_MAX", 1)
    with pytest.raises(TooManyChannels, match="billing has 1 channels"):
        put({MAIL.key: MAIL}, replace(MAIL, id="x"), replaces=False, if_version=None, version=9)
    monkeypatch.setattr(channels, "CHANNELS_MAX", 1)
    with pytest.raises(TooManyChannels, match="this core has 1 channels"):
        put({MAIL.key: MAIL}, replace(MAIL, owner="o"), replaces=False, if_version=None, version=9)
