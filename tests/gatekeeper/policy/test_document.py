import dataclasses
from collections.abc import Callable

import pytest

from gatekeeper.api.quotas import Limits
from gatekeeper.policy.document import ACTIONS, LIMIT_NAMES, Claim, Document, Named, Scope


def test_a_subject_is_written_as_the_file_writes_it() -> None:
    assert str(Named("billing")) == "billing"
    assert str(Claim("corp", "team", "a=b")) == "claim:corp:team=a=b"
    assert str(Scope("corp", "log:read")) == "scope:corp:log:read"


def test_the_actions_are_the_six_of_the_dialect() -> None:
    assert ACTIONS == ("publish", "subscribe", "replay", "share", "admin", "audit")


def test_every_limit_that_a_policy_can_name_exists() -> None:
    assert [field.name for field in dataclasses.fields(Limits)] == list(LIMIT_NAMES)


def test_a_document_can_not_be_changed(parse: Callable[[str], Document]) -> None:
    document = parse("version: 1\n")
    with pytest.raises(dataclasses.FrozenInstanceError):
        document.topics = ()  # type: ignore[misc]
