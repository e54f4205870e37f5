import pytest

from gatekeeper.policy import reading
from gatekeeper.policy.nodes import Items, Node, Refused, Table, Text
from gatekeeper.policy.problem import Problems
from hosting.units import parse_duration


def node(text: str, *, plain: bool = True) -> Text:
    return Text(text, 7, plain)


def table(**entries: Node) -> Table:
    return Table(tuple((Text(key, 3), value) for key, value in entries.items()), 2)


def told(problems: Problems) -> list[str]:
    return [str(problem) for problem in problems.found]


def test_unknown_and_missing_keys_are_noted_together() -> None:
    problems = Problems()
    keys = {"who": True, "max_age": False, "id": True}
    found = reading.fields(table(whom=node("x"), max_age=node("1d")), "deny[0]", keys, problems)
    assert found == {"max_age": node("1d")}
    assert told(problems) == [
        '3: deny[0]: unknown key "whom"; did you mean "who"?',
        "2: deny[0]: who is missing",
        "2: deny[0]: id is missing",
    ]


def test_a_key_that_is_near_to_none_lists_what_there_is() -> None:
    problems = Problems()
    reading.fields(table(zzz=node("x")), "w", {"who": False, "on": False}, problems)
    assert told(problems) == ['3: w: unknown key "zzz"; the keys here are who, on']


@pytest.mark.parametrize(
    ("wrong", "kind"), [(node("x"), "one value"), (Items((), 7), "a list"), (table(), "a table")]
)
def test_a_wrong_shape_says_what_is_wanted_and_what_is_there(wrong: Node, kind: str) -> None:
    problems = Problems()
    if not isinstance(wrong, Table):
        assert reading.fields(wrong, "w", {"a": False}, problems) is None
        assert reading.entries(wrong, "w", "a to b", problems) == ()
    if not isinstance(wrong, Items):
        assert reading.items(wrong, "w", "names", problems) == ()
    if not isinstance(wrong, Text):
        assert reading.text(wrong, "w", problems) is None
    assert len(problems.found) >= 2
    assert all(str(item).endswith(f", not {kind}") for item in problems.found)


def test_a_refused_node_is_not_noted_again() -> None:
    problems = Problems()
    assert reading.text(Refused(1), "w", problems) is None
    assert reading.fields(Refused(1), "w", {}, problems) is None
    assert reading.items(Refused(1), "w", "names", problems) == ()
    assert problems.found == []


@pytest.mark.parametrize("null", ["", "~", "null", "Null", "NULL"])
def test_a_null_is_empty_and_a_quoted_one_is_text(null: str) -> None:
    problems = Problems()
    assert reading.text(node(null), "w", problems) is None
    assert told(problems) == ["7: w: is empty; give a value or remove the key"]
    quoted = node(null, plain=False)
    assert reading.text(quoted, "w", problems) == (quoted if null else None)


def test_an_item_that_is_listed_twice_is_noted_and_kept_once() -> None:
    problems = Problems()
    listed = Items((node("a"), node("b"), node("a")), 1)
    assert [item.value for item in reading.texts(listed, "w", "names", problems)] == ["a", "b"]
    assert told(problems) == ['7: w: "a" is listed twice']


def test_an_empty_list_is_a_problem_only_where_it_is_said_to_be() -> None:
    problems = Problems()
    assert reading.texts(Items((), 4), "w", "names", problems) == ()
    assert problems.found == []
    reading.texts(Items((), 4), "w", "names", problems, empty_is="nobody is denied")
    assert told(problems) == ["4: w: is empty: nobody is denied"]


def test_a_parsers_error_becomes_a_problem_at_its_line() -> None:
    problems = Problems()
    assert reading.parsed(node("15m"), "w", parse_duration, problems) == 900.0
    assert reading.parsed(node("15q"), "w", parse_duration, problems) is None
    assert told(problems)[0].startswith("7: w: must be a duration")


@pytest.mark.parametrize("good", ["a", "0", "billing", "spark-audit", "A.b_c", "x" * 128])
def test_names_that_are_names(good: str) -> None:
    problems = Problems()
    assert reading.name(node(good), "w", problems) == good
    assert problems.found == []


@pytest.mark.parametrize(
    "bad",
    ["-a", ".a", "_a", "a b", "a:b", "a/b", "a\n", "é", "spiffe://x/y", "x" * 129, "*", "{a}"],
)
def test_names_that_could_be_taken_for_something_else_are_refused(bad: str) -> None:
    problems = Problems()
    assert reading.name(node(bad), "w", problems) is None
    assert len(problems.found) == 1


def test_a_choice_names_the_choices() -> None:
    parse = reading.one_of("allow", "deny")
    assert parse("deny") == "deny"
    with pytest.raises(ValueError, match='must be allow or deny, not "alow"'):
        parse("alow")


def test_long_text_is_refused() -> None:
    assert reading.short("x" * reading.SHORT_CHARS_MAX)
    with pytest.raises(ValueError, match="has 257 characters; at most 256"):
        reading.short("x" * 257)


@pytest.mark.parametrize("text", ["a\nb", "a\n", "\x1b[2J", "a\u2028b"])
def test_text_of_several_lines_or_with_control_characters_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="one line of printable text"):
        reading.short(text)
