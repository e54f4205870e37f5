import click

from sidegate.table import table


def test_columns_stand_below_each_other() -> None:
    text = click.unstyle(table([["NAME", "N"], ["a", "10"], ["longer", ""]]))
    assert text.splitlines() == ["NAME    N", "a       10", "longer"]
