"""The form of a finding, which the checks of completeness and integrity share."""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

COLUMNS: Final = (
    ("check", "string"),
    ("kind", "string"),
    ("topic", "string"),
    ("partition", "int"),
    ("first_offset", "bigint"),
    ("last_offset", "bigint"),
    ("leaf", "bigint"),
    ("file", "string"),
    ("position", "bigint"),
    ("text", "string"),
)
SCHEMA: Final = ", ".join(f"{name} {kind}" for name, kind in COLUMNS)
"""`kind` is stable; `text` says in words what is wrong. What is not known is null."""


def as_findings(frame: DataFrame, check: str, **columns: Column | str) -> DataFrame:
    """Rows as findings: a column by its name, text by a Column; the rest is null."""
    chosen = []
    for name, kind in COLUMNS:
        if name == "check":
            value = f.lit(check)
        elif name in columns:
            given = columns[name]
            value = f.col(given) if isinstance(given, str) else given
        else:
            value = f.lit(None)
        chosen.append(value.cast(kind).alias(name))
    return frame.select(*chosen)
