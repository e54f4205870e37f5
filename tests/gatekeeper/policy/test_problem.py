from gatekeeper.policy.problem import (
    SHOWN_CHARS_MAX,
    SUGGESTIONS_MAX,
    PolicyError,
    PolicyProblem,
    Problems,
    shown,
)


def test_an_error_lists_every_problem_once_in_file_order() -> None:
    late, early = PolicyProblem(9, "deny[0]", "b"), PolicyProblem(2, "", "a")
    error = PolicyError("policy.yaml", [late, early, late])
    assert error.problems == (early, late)
    assert str(error) == "policy.yaml:2: a\npolicy.yaml:9: deny[0]: b"
    assert error.lines == tuple(str(error).split("\n"))


def test_a_near_name_is_suggested_and_a_far_one_is_not() -> None:
    problems = Problems()
    assert problems.hint("biling", ["billing", "auditors"]) == '; did you mean "billing"?'
    assert problems.hint("zzz", ["billing"]) == ""


def test_suggestions_are_bounded_so_that_a_broken_file_is_still_read_quickly() -> None:
    problems = Problems()
    hints = [problems.hint("biling", ["billing"]) for _ in range(SUGGESTIONS_MAX + 5)]
    assert hints.count("") == 5


def test_a_problem_never_carries_what_moves_a_terminal() -> None:
    problems = Problems()
    problems.add(1, "a\x1b[2Jb", "c\nd\u202e")
    assert problems.found == [PolicyProblem(1, "a\\x1b[2Jb", "c\\nd\\u202e")]


def test_a_long_value_is_cut() -> None:
    assert shown("x" * SHOWN_CHARS_MAX) == f'"{"x" * SHOWN_CHARS_MAX}"'
    assert shown("x" * 1000) == f'"{"x" * SHOWN_CHARS_MAX}…"'
