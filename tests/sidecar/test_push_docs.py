"""The page about pushes says what the code does."""

import re
from pathlib import Path

from sidecar.push.parcel import State
from sidecar.push.push_settings import MAX_ATTEMPTS, Push, Retry

PAGE = (Path(__file__).parents[2] / "docs" / "push.md").read_text()


def test_the_table_of_states_is_the_one_in_the_code():
    rows = dict(re.findall(r"^\| ([A-Z]+) \| (.+) \|$", PAGE, re.MULTILINE))
    assert rows == {state.name: state.value for state in State}


def test_every_setting_is_on_the_page_with_its_default():
    for name in Push.__struct_fields__:
        assert f"`push.{name}`" in PAGE, name
    for name in Retry.__struct_fields__:
        assert f"`retry.{name}`" in PAGE, name
    assert f"or null for ever | {MAX_ATTEMPTS} |" in PAGE
    assert f"| {Push().timeout_ms:,} |" in PAGE
    assert f"under way | {Push().concurrency} |" in PAGE
    assert f"| {Retry().first_ms}, {Retry().max_ms:,} |" in PAGE
