"""Names that owners choose."""

import pytest

from core_log.control.json_fields import Fields
from core_log.control.names import is_name, take_member, take_name


@pytest.mark.parametrize("name", ["mailer", "a", "A.b-c_d", "9", "x" * 128])
def test_names_that_may_stand_in_a_path(name: str) -> None:
    assert is_name(name)
    assert take_name(Fields({"name": name}, ValueError, what="x"), "name") == name


@pytest.mark.parametrize("name", ["", ".a", "-a", "a/b", "a b", "ä", "x" * 129, 7, None])
def test_other_names_are_refused_with_the_form_they_should_have(name: object) -> None:
    assert not is_name(name)
    fields = Fields({"name": name}, ValueError, what="x")
    assert take_name(fields, "name") == ""
    with pytest.raises(ValueError, match=r"name: must be a name such as mailer"):
        fields.finish()


@pytest.mark.parametrize(("name", "fine"), [("-._a", True), ("x" * 64, True), ("x" * 65, False)])
def test_members_have_names_of_their_own(name: str, *, fine: bool) -> None:
    assert bool(take_member(Fields({"m": name}, ValueError, what="x"), "m")) is fine
