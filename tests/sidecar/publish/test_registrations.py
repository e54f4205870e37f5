"""Registrations in their file."""

import pytest

from hosting.lifecycle import StartError
from sidecar.errors import DiskRefuses
from sidecar.publish.registrations import Registrations, publisher_id


def opened(folder):
    registrations = Registrations(folder)
    registrations.open()
    return registrations


def test_an_id_belongs_to_topic_and_name_on_every_sidecar():
    assert publisher_id("t", "n") == publisher_id("t", "n")
    assert len({publisher_id(*each) for each in (("t", "n"), ("t", "m"), ("u", "n"))}) == 3


def test_what_is_registered_is_there_again_and_registering_twice_changes_nothing(tmp_path):
    first = opened(tmp_path)
    row, fresh = first.add("t", "n")
    assert fresh
    assert first.add("t", "n") == (row, False)
    assert opened(tmp_path).list() == [row]


def test_an_id_is_good_for_its_topic_only(tmp_path):
    registrations = opened(tmp_path)
    row, _ = registrations.add("t", "n")
    assert registrations.allows(row.publisher_id, "t")
    assert not registrations.allows(row.publisher_id, "u")
    assert not registrations.allows("pub-other", "t")
    assert not registrations.allows(None, "t")


def test_who_is_removed_is_gone_for_good(tmp_path):
    registrations = opened(tmp_path)
    row, _ = registrations.add("t", "n")
    assert registrations.remove(row.publisher_id)
    assert not registrations.remove(row.publisher_id)
    assert opened(tmp_path).list() == []


def test_a_damaged_file_is_named_with_what_to_do(tmp_path):
    (tmp_path / "registrations.json").write_text("{")
    with pytest.raises(StartError, match="remove it"):
        opened(tmp_path)


def test_what_the_disk_does_not_take_changes_nothing(tmp_path):
    registrations = Registrations(tmp_path)
    kept, _ = registrations.add("t", "kept")
    (tmp_path / "registrations.new").mkdir()
    with pytest.raises(DiskRefuses, match="could not be written"):
        registrations.add("t", "lost")
    with pytest.raises(DiskRefuses):
        registrations.remove(kept.publisher_id)
    assert registrations.list() == [kept]
