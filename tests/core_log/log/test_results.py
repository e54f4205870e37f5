"""What the log hands out is shared by many readers, so nobody can change it."""

from dataclasses import FrozenInstanceError

import pytest

from core_log.log.results import Committed, Refused


def test_a_result_cannot_be_changed() -> None:
    batch = Committed("orders", 0, 5, 2, 1, 7, b"frame")
    with pytest.raises(FrozenInstanceError):
        batch.base_offset = 6


def test_the_members_of_a_refusal_are_empty_by_default_and_shared_safely() -> None:
    refusal = Refused("orders", 0, "fenced", "…", retryable=False)
    assert dict(refusal.members) == {}
    with pytest.raises(TypeError):
        refusal.members["current_epoch"] = 1
