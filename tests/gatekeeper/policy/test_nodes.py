from collections.abc import Callable

import pytest
import yaml

from gatekeeper.policy.nodes import DEPTH_MAX, Items, Node, Refused, Table, Text, read_nodes
from gatekeeper.policy.problem import Problems

Read = Callable[[str], tuple[Node | None, list[str]]]


@pytest.fixture(params=["CSafeLoader", "SafeLoader"])
def read(request: pytest.FixtureRequest) -> Read:
    """Reads with each of PyYAML's two parsers: what one refuses, the other must."""
    if not hasattr(yaml, request.param):
        pytest.skip("needs a PyYAML with libyaml")

    def reading(text: str) -> tuple[Node | None, list[str]]:
        problems = Problems()
        root = read_nodes(text, problems, loader=getattr(yaml, request.param))
        return root, [str(problem) for problem in problems.found]

    return reading


def test_scalars_are_text_as_written_with_their_lines(read: Read) -> None:
    root, problems = read("a: no\nb: [007, 'x', 1e3]\n")
    assert problems == []
    assert root == Table(
        (
            (Text("a", 1), Text("no", 1)),
            (
                Text("b", 2),
                Items((Text("007", 2), Text("x", 2, plain=False), Text("1e3", 2)), 2),
            ),
        ),
        1,
    )


def test_json_is_yaml(read: Read) -> None:
    root, problems = read('{"a": {"b": ["c"]}}')
    assert problems == []
    assert isinstance(root, Table)
    assert [key.value for key, _ in root.entries] == ["a"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: 1\nb: 2\na: 3\n", '3: "a" is already given on line 1'),
        ("a: {x: 1,\n  x: 2}\n", '2: "x" is already given on line 1'),
        ("a: &x 1\n", "1: &x is a YAML anchor"),
        ("a: &x [1]\n", "1: &x is a YAML anchor"),
        ("a: 1\nb: !!str 2\n", "2: "),
        ("a: 1\nb: !!map {}\n", "2: "),
        ("<<: {a: 1}\n", "1: << is a YAML merge key"),
        ("? [a]\n: 1\n", "1: a key must be text"),
        ("a: 1\n---\nb: 2\n", "3: a second YAML document"),
        ("a: \x07\n", "1: holds the character '\\x07'"),
        ("é: 1\nb: \x1b\n", "2: holds the character '\\x1b'"),
        ("", "1: the file is empty"),
        ("# only a comment\n", "1: the file is empty"),
        ("a: 1\nb: [1\n", "is not YAML"),
        ("a: 1\n*.x: 2\n", "2: is not YAML"),
        ("a: 1\n\tb: 2\n", "2: is not YAML"),
    ],
)
def test_what_the_dialect_does_not_have_is_refused_with_its_line(
    read: Read, text: str, problem: str
) -> None:
    _, problems = read(text)
    assert len(problems) == 1
    assert problem in problems[0]


def test_an_alias_is_refused_and_the_rest_is_still_read(read: Read) -> None:
    root, problems = read("a: &x 1\nb: *x\nc: 3\n")
    assert [problem.partition(":")[0] for problem in problems] == ["1", "2"]
    assert isinstance(root, Table)
    assert [value for _, value in root.entries] == [Refused(1), Refused(2), Text("3", 3)]


def test_a_merge_key_in_quotes_is_a_key(read: Read) -> None:
    root, problems = read("'<<': 1\n")
    assert problems == []
    assert isinstance(root, Table)


def test_a_recursive_document_is_refused(read: Read) -> None:
    _, problems = read("&a [*a]")
    assert len(problems) == 2


@pytest.mark.parametrize("depth", [DEPTH_MAX + 1, 100_000])
def test_deep_nesting_is_refused_without_recursion(read: Read, depth: int) -> None:
    root, problems = read("[" * depth)
    assert root is None
    assert problems == [f"1: is nested more than {DEPTH_MAX} levels deep"]


def test_a_syntax_problem_tells_of_quotes(read: Read) -> None:
    _, problems = read("topics:\n  {corp:team}.x: {}\n")
    assert "put quotes around a pattern" in problems[0]
    assert problems[0].startswith("2: ")
