"""Columns of text below each other. Imports click for the bold head, and nothing else."""

import click


def table(rows: list[list[str]]) -> str:
    """The rows as aligned lines, the first being the columns' heads."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    return "\n".join([click.style(lines[0], bold=True), *lines[1:]])
