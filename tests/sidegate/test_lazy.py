import sys

import click
import pytest
from click.testing import CliRunner

from sidegate.lazy import Entry, LazyGroup


@pytest.fixture
def group() -> LazyGroup:
    return LazyGroup(
        "tool",
        entries={
            "second": Entry("sidegate.commands.completion:completion", "Comes first in the table."),
            "never": Entry("sidegate.no_such_module:command", "Is never imported by a listing."),
            "wrong": Entry("sidegate.lazy:Entry", "Is no command."),
        },
    )


def test_help_lists_every_entry_in_the_tables_order_and_imports_none(group: LazyGroup) -> None:
    result = CliRunner().invoke(group, ["--help"])
    assert result.exit_code == 0
    lines = result.output.partition("Commands:\n")[2].splitlines()
    assert [line.split()[0] for line in lines] == ["second", "never", "wrong"]
    assert "Is never imported by a listing." in result.output
    assert "sidegate.no_such_module" not in sys.modules


def test_completion_lists_names_and_imports_none(group: LazyGroup) -> None:
    context = click.Context(group)
    assert [item.value for item in group.shell_complete(context, "ne")] == ["never"]
    assert [item.value for item in group.shell_complete(context, "--he")] == ["--help"]


def test_a_command_is_imported_to_be_run(group: LazyGroup) -> None:
    assert CliRunner().invoke(group, ["second", "bash"]).exit_code == 0


def test_an_unknown_command_is_a_usage_error(group: LazyGroup) -> None:
    result = CliRunner().invoke(group, ["nothing"])
    assert result.exit_code == 2
    assert "No such command" in result.output


def test_a_misspelt_command_is_answered_with_the_nearest(group: LazyGroup) -> None:
    result = CliRunner().invoke(group, ["secnd"])
    assert result.exit_code == 2
    assert "No such command 'secnd'. Did you mean second?" in result.output


def test_an_entry_that_names_no_command_is_a_mistake_of_ours(group: LazyGroup) -> None:
    with pytest.raises(TypeError, match="not a click command"):
        group.get_command(click.Context(group), "wrong")
