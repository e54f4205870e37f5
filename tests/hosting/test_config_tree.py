"""YAML becomes a tree that knows its lines, and nothing else becomes anything."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hosting.config_tree import (
    FILE_BYTES_MAX,
    ConfigProblem,
    Items,
    Place,
    Section,
    Text,
    parse_tree,
    read_tree,
)


def parsed(text: str) -> Section:
    tree, problems = parse_tree(text.encode(), "x.yaml")
    assert problems == []
    assert tree is not None
    return tree


def problems_of(text: str) -> list[str]:
    return [str(problem) for problem in parse_tree(text.encode(), "x.yaml")[1]]


def test_every_value_knows_its_line() -> None:
    tree = parsed("a: 1\n\nb:\n  c: x\n  d:\n  - e\n  - f\n")
    assert tree.entries["a"] == Text(Place("x.yaml", 1), "1")
    inner = tree.entries["b"]
    assert isinstance(inner, Section)
    assert inner.place == Place("x.yaml", 3)
    assert inner.key_places["c"] == Place("x.yaml", 4)
    listed = inner.entries["d"]
    assert isinstance(listed, Items)
    assert [str(item.place) for item in listed.items] == ["x.yaml:6", "x.yaml:7"]


def test_texts_stay_as_they_were_written() -> None:
    tree = parsed("a: off\nb: 010\nc: 1:30\nd: 2026-01-01\ne: '~'\nf: 1_000\n")
    texts = {key: value.text for key, value in tree.entries.items() if isinstance(value, Text)}
    assert texts == {"a": "off", "b": "010", "c": "1:30", "d": "2026-01-01", "e": "~", "f": "1_000"}


@pytest.mark.parametrize("text", ["a:", "a: ~", "a: null"])
def test_an_empty_value_is_null(text: str) -> None:
    value = parsed(text).entries["a"]
    assert isinstance(value, Text)
    assert value.is_null


@pytest.mark.parametrize("text", ["", "# only a comment\n", "---\n", "{}", "null"])
def test_an_empty_file_is_an_empty_map(text: str) -> None:
    assert parsed(text).entries == {}


def test_json_is_yaml() -> None:
    tree = parsed('{"a": {"b": "c\\/d"}, "e": [true, null]}')
    assert list(tree.entries) == ["a", "e"]


def test_json_may_be_indented_with_tabs(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text('{\n\t"a": {\n\t\t"b": 1\n\t}\n}\n')
    tree, problems = read_tree(path)
    assert (problems, list(tree.entries if tree else ())) == ([], ["a"])


def test_a_key_that_is_set_twice_is_named_with_both_lines() -> None:
    assert problems_of("a:\n  b: 1\n  c: 2\n  b: 3\n") == [
        "x.yaml:4: a.b: is set twice, first on line 2; keep one"
    ]


def test_all_problems_are_found_in_one_reading() -> None:
    assert len(problems_of("a: 1\na: 2\nb: !!python/object:os.system x\n? [c]\n: 3\n")) == 3


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: [1\nb: 2\n", "x.yaml:2: is not YAML"),
        ("a: *nowhere\n", "undefined alias"),
        ("a: 1\n---\nb: 2\n", "single document"),
        ("\ta: 1\n", "is not YAML"),
        ("- a\n- b\n", "x.yaml:1: must be a map of keys"),
        ("word", "must be a map of keys"),
        ("a: !secret x\n", "tags are not read"),
        ("a: &a [*a]\n", "refers to itself"),
        ("d: &d {x: 1}\na:\n  <<: *d\n", "merge key"),
        ("[" * 5000, "is not YAML"),
        ("a: \x07\n", "is not YAML"),
    ],
)
def test_what_is_no_plain_yaml_map_is_refused_by_line(text: str, said: str) -> None:
    found = problems_of(text)
    assert len(found) == 1
    assert said in found[0]


def test_bytes_that_are_no_utf_8_are_refused() -> None:
    tree, problems = parse_tree(b"a: \xff\xfe\n", "x.yaml")
    assert tree is None
    assert "UTF-8" in str(problems[0])


def test_an_alias_repeats_a_value() -> None:
    tree = parsed("a: &a 5s\nb: *a\n")
    assert [value.text for value in tree.entries.values() if isinstance(value, Text)] == ["5s"] * 2


def test_aliases_of_aliases_do_not_unfold_without_end() -> None:
    lines = ["a0: &a0 [x,x,x,x,x,x,x,x,x,x]"]
    for level in range(1, 12):
        repeated = ",".join([f"*a{level - 1}"] * 10)
        lines.append(f"a{level}: &a{level} [{repeated}]")
    assert problems_of("\n".join(lines)) == [
        "x.yaml: unfolds to more than 20000 values; use fewer aliases"
    ]


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    tree, problems = read_tree(tmp_path / "none.yaml")
    assert tree is None
    assert str(problems[0]).endswith(
        "none.yaml: can't be read: no such file or directory; check --config"
    )


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    assert "is a directory" in str(read_tree(tmp_path)[1][0])


def test_a_file_that_can_be_no_configuration_is_not_read_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "big.yaml"
    path.write_bytes(b"#" * (FILE_BYTES_MAX + 1))
    assert "larger than" in str(read_tree(path)[1][0])


def test_a_problem_reads_as_place_key_and_text() -> None:
    assert str(ConfigProblem(Place("a.yaml", 3), "b.c", "is bad")) == "a.yaml:3: b.c: is bad"
    assert str(ConfigProblem(Place("SIDEGATE_X_Y"), "", "is bad")) == "SIDEGATE_X_Y: is bad"


@given(st.binary(max_size=200))
def test_no_bytes_make_the_reader_fail_in_another_way_than_with_problems(raw: bytes) -> None:
    tree, problems = parse_tree(raw, "x.yaml")
    assert tree is not None or problems
