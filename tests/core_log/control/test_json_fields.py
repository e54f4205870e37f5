"""Members of JSON objects are read one by one, and everything wrong is said at once."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core_log.control.json_fields import INTEGER_MAX, Fields

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)


def fields(value: object) -> Fields:
    return Fields(value, ValueError, what="a thing")


@pytest.mark.parametrize("value", [None, 1, "text", ["list"]])
def test_only_an_object_has_members(value: object) -> None:
    with pytest.raises(ValueError, match="a thing must be a JSON object"):
        fields(value)


def test_all_problems_come_at_once_and_name_their_member() -> None:
    reader = fields({"count": "many", "mode": "slow", "inner": {"deep": -1, "odd": 1}, "extra": 1})
    reader.integer("count", 0, least=0)
    reader.choice("mode", ("fast", "safe"))
    inner = reader.nested("inner")
    assert inner is not None
    inner.optional_integer("deep", least=0)
    inner.close()
    with pytest.raises(ValueError, match="count") as caught:
        reader.finish()
    text = str(caught.value)
    assert "count: must be an integer between 0 and" in text
    assert "mode: must be one of fast, safe" in text
    assert "inner.deep: must be an integer" in text
    assert "inner.odd: is not known here; known are deep" in text
    assert "extra: is not known here; known are count, inner, mode" in text


def test_an_absent_member_takes_its_default() -> None:
    reader = fields({})
    assert reader.integer("count", 7, least=0) == 7
    assert reader.choice("mode", ("fast",)) is None
    assert reader.text("name", bytes_max=4) is None
    assert reader.nested("inner") is None
    reader.finish()


@pytest.mark.parametrize("value", [True, False, 1.0, "1", -1, INTEGER_MAX + 1])
def test_only_whole_numbers_within_their_limits_are_integers(value: object) -> None:
    reader = fields({"count": value})
    reader.integer("count", 0, least=0)
    assert reader.problems


@pytest.mark.parametrize("value", ["", "too long", 5, "äöü"])
def test_texts_are_measured_in_bytes(value: object) -> None:
    reader = fields({"name": value})
    assert reader.text("name", bytes_max=5) is None
    assert reader.problems == ["name: must be a string of 1 to 5 bytes"]


@given(st.dictionaries(st.text(max_size=8), JSON))
def test_no_object_breaks_the_reader(value: dict[str, object]) -> None:
    reader = fields(value)
    reader.integer("a", 0, least=0)
    reader.choice("b", ("x", "y"))
    reader.text("c", bytes_max=3)
    nested = reader.nested("d")
    if nested is not None:
        nested.close()
    known = {"a", "b", "c", "d"}
    reader.close()
    assert sum("is not known here" in each for each in reader.problems) >= len(set(value) - known)
