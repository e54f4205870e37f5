"""Topic names: which an app may use."""

import pytest

from log_format.errors import BadField
from log_format.topic import check_any_topic, check_topic, is_system_topic


@pytest.mark.parametrize("name", ["orders", "orders.eu", "a", "0", "A-b_c.9", "x" * 249])
def test_plain_names_are_allowed(name: str) -> None:
    assert check_topic(name) == name
    assert check_any_topic(name) == name


@pytest.mark.parametrize(
    "name",
    [
        "",
        "a b",
        "a/../c",
        ".a",
        "-a",
        "a..b",
        "a.",
        "ä",
        "a\n",
        "a*",
        "a.>",
        "x" * 250,
        None,
        5,
        ["a"],
        "_audit",
        "_",
    ],
)
def test_any_other_name_is_refused_and_the_error_names_the_field(name: object) -> None:
    with pytest.raises(BadField) as caught:
        check_topic(name)
    assert caught.value.field == "topic"


def test_system_topics_are_read_but_not_given_to_apps() -> None:
    assert is_system_topic("_audit")
    assert check_any_topic("_audit") == "_audit"
    for name in ("_", "__audit", "_a..b", "_a."):
        with pytest.raises(BadField, match="well-formed system topic"):
            check_any_topic(name)
