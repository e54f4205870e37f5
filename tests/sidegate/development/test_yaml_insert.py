from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from sidegate.development.yaml_insert import CannotInsert, load, with_entry, with_item

TEXT = """\
# The head.
version: 1   # a number

principals:
  a: {spiffe: "x"}   # the first
  # about nothing in particular

topics:
    ">":
        publish: [a]
        replay: {who: [a], max_age: 90d}
        # the end of >
flow: {one: [], two: {}, three: [a, b,], four: [
  a, # with a word
  b  # and another
]}
tests:
- {as: a}
-   as: b
    do: publish
# The foot.
"""


def inserted(before: str, after: str) -> str:
    """What was put in, in one piece, everything else being as it was."""
    start = 0
    while start < len(before) and before[start] == after[start]:
        start += 1
    end = len(before) - start
    assert before[start:] == (after[-end:] if end else "")
    return after[start : len(after) - end]


@pytest.mark.parametrize(
    ("path", "below"),
    [
        (["principals"], '  a: {spiffe: "x"}   # the first\n'),
        (["topics"], "        replay: {who: [a], max_age: 90d}\n"),
        (["topics", ">"], "        replay: {who: [a], max_age: 90d}\n"),
        ([], "    do: publish\n"),
    ],
)
def test_an_entry_follows_the_last_one_of_its_table_at_the_same_depth(
    path: list[str], below: str
) -> None:
    after = with_entry(TEXT, path, "new", "{b: [c]}", comment="why")
    lines = after.splitlines(keepends=True)
    place = lines.index(below)
    assert [line.strip() for line in lines[place + 1 : place + 3]] == ["# why", "new: {b: [c]}"]
    inserted(TEXT, after)


@pytest.mark.parametrize("path", [["flow"], ["flow", "two"], ["topics", ">", "replay"]])
def test_an_entry_of_a_table_in_braces_stands_in_the_braces(path: list[str]) -> None:
    after = with_entry(TEXT, path, "new", "[c]", comment="there is no room for this")
    assert "no room" not in after
    assert inserted(TEXT, after).strip(", ") == "new: [c]"


@pytest.mark.parametrize(
    "path",
    [
        ["tests"],
        ["topics", ">", "publish"],
        ["topics", ">", "replay", "who"],
        ["flow", "one"],
        ["flow", "three"],
        ["flow", "four"],
    ],
)
def test_an_item_is_the_last_of_its_list_however_the_list_is_written(path: list[str]) -> None:
    after = with_item(TEXT, path, "new")
    assert inserted(TEXT, after).strip(", -\n") == "new"
    found = load(after)
    for name in path:
        found = found[name]
    assert found[-1] == "new"


@pytest.mark.parametrize(("end", "newline"), [("", "\n"), ("\n", "\n"), ("\r\n", "\r\n")])
def test_a_file_may_end_without_a_newline_or_have_another_systems(end: str, newline: str) -> None:
    text = f"a:{newline}  b: 1{end}"
    after = with_entry(text, ["a"], "c", "2")
    assert load(after) == {"a": {"b": "1", "c": "2"}}
    assert after.endswith(f"{newline}  c: 2{newline}")


def test_a_block_of_text_is_not_cut() -> None:
    text = "a:\n  b: |\n    one\n    two\n\nc: 1\n"
    assert load(with_entry(text, ["a"], "d", "3")) == {
        "a": {"b": "one\ntwo\n", "d": "3"},
        "c": "1",
    }


@pytest.mark.parametrize(
    ("text", "path"),
    [("a: 1\n", ["a"]), ("a:\n", ["a"]), ("a: {}\n", ["b"]), ("- 1\n", []), ("a: [1]\n", ["a"])],
)
def test_what_can_not_be_added_to_is_told_with_what_to_add(text: str, path: list[str]) -> None:
    with pytest.raises(CannotInsert, match="add it by hand"):
        with_entry(text, path, "c", "2")
    with pytest.raises(CannotInsert, match="add it by hand"):
        with_item("a: {}\n", ["a"], "c")


def test_text_that_is_no_yaml_is_told() -> None:
    with pytest.raises(CannotInsert, match="not YAML"):
        load("a: [")


words = st.text("abcxyz", min_size=1, max_size=4)
values = st.recursive(
    words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=12,
)


@given(st.dictionaries(words, values, min_size=1, max_size=4), st.sampled_from([None, True, False]))
def test_any_file_keeps_every_character_and_gains_the_entry(
    document: dict[str, Any], flow: bool | None
) -> None:
    text = "# head\n" + yaml.safe_dump(document, default_flow_style=flow) + "# foot\n"
    for path in [[], *([name] for name in document)]:
        target: Any = document[path[0]] if path else document
        if isinstance(target, dict):
            try:
                after = with_entry(text, path, "new", "[v]")
            except CannotInsert:
                continue
            assert load(after) == (
                {**document, path[0]: {**target, "new": ["v"]}}
                if path
                else {**document, "new": ["v"]}
            )
            inserted(text, after)
        elif isinstance(target, list):
            after = with_item(text, path, "new")
            assert load(after) == {**document, path[0]: [*target, "new"]}
            inserted(text, after)
