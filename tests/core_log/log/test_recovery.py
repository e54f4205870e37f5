"""The decision table about damage, over all of its inputs."""

from itertools import product
from typing import Any

import pytest

from core_log.log.recovery import TABLE, Action, Finding, Place, decide, findings


def test_the_table_has_a_row_for_every_finding_and_no_other() -> None:
    every = {
        Finding(place, synced, followed)
        for place, synced, followed in product(Place, (True, False), (True, False))
    }
    impossible = {Finding(Place.END, synced, followed=True) for synced in (True, False)}
    assert set(TABLE) == set(findings()) == every - impossible


@pytest.mark.parametrize("finding", findings(), ids=str)
def test_what_was_synced_is_never_cut(finding: Any) -> None:
    if finding.synced:
        assert TABLE[finding] in (Action.QUARANTINE, Action.QUARANTINE_AND_LEAVE)


@pytest.mark.parametrize("finding", findings(), ids=str)
def test_nothing_is_appended_behind_damage_at_the_end(finding: Any) -> None:
    if TABLE[finding] is Action.QUARANTINE:
        assert finding.followed


@pytest.mark.parametrize("finding", findings(), ids=str)
def test_a_torn_tail_is_cut_with_all_that_stands_behind_it(finding: Any) -> None:
    if finding.place is Place.FRAMES and not finding.synced:
        assert TABLE[finding] is Action.CUT


@pytest.mark.parametrize("finding", findings(), ids=str)
def test_only_a_head_without_frames_or_proof_is_discarded(finding: Any) -> None:
    expected = finding == Finding(Place.HEAD, synced=False, followed=False)
    assert (TABLE[finding] is Action.DISCARD) == expected


def test_a_sound_end_is_no_damage_unless_leaves_are_missing() -> None:
    assert decide(Place.END, leaf=7, proven=7, followed=False) is Action.NOTHING
    assert decide(Place.END, leaf=7, proven=8, followed=False) is Action.QUARANTINE_AND_LEAVE


@pytest.mark.parametrize(
    ("leaf", "proven", "expected"),
    [(5, 6, Action.QUARANTINE), (5, 5, Action.CUT), (5, 0, Action.CUT)],
)
def test_a_leaf_counts_as_synced_below_the_durable_position_only(
    leaf: Any, proven: Any, expected: Any
) -> None:
    assert decide(Place.FRAMES, leaf=leaf, proven=proven, followed=True) is expected
