"""An identity is a value: what was proven, and nothing that could be changed afterwards."""

from dataclasses import FrozenInstanceError

import pytest

from gatekeeper.identity.identity import Identity


def test_an_identity_can_not_be_changed_and_has_no_claims_unless_given() -> None:
    identity = Identity(
        "spiffe://example/app", bytes(32), "corp", "https://idp", "c", "s", "t", frozenset(), 1.0
    )
    assert dict(identity.claims) == {}
    with pytest.raises(FrozenInstanceError):
        identity.client_id = "other"  # type: ignore[misc]
    with pytest.raises(TypeError):
        identity.claims["team"] = "pay"  # type: ignore[index]
