from hypothesis import given
from hypothesis import strategies as st

from sidegate.development.generated import is_untouched, marked


@given(st.text())
def test_what_was_marked_is_untouched(text: str) -> None:
    assert is_untouched(marked(text))


@given(st.text(), st.text(min_size=1))
def test_anything_added_makes_it_the_users_own(text: str, more: str) -> None:
    assert not is_untouched(marked(text) + more)
    assert not is_untouched(more + marked(text)) or more.startswith(marked(""))


def test_a_changed_value_makes_it_the_users_own() -> None:
    assert not is_untouched(marked("listen: 1\n").replace("listen: 1", "listen: 2"))


def test_a_file_without_the_mark_is_the_users_own() -> None:
    assert not is_untouched("listen: 1\n")
    assert not is_untouched("")
