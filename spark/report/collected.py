"""Findings from everywhere, gathered as one frame."""

from typing import Any

from pyspark.sql import DataFrame, SparkSession

from spark.checks.findings import SCHEMA
from spark.damage import Damage


class Collected:
    """Frames of findings, and findings that are no frame's. Nothing runs before it is read."""

    def __init__(self, session: SparkSession) -> None:
        self._session = session
        self._frames: list[DataFrame] = []
        self._rows: list[tuple[Any, ...]] = []

    def add(self, frame: DataFrame) -> None:
        """A check's findings."""
        self._frames.append(frame)

    def note(self, check: str, kind: str, text: str) -> None:
        """One finding about the log as a whole."""
        self._rows.append((check, kind, None, None, None, None, None, None, None, text))

    def note_damage(self, damage: list[Damage], check: str) -> None:
        """Damage that was met outside of Spark."""
        for each in damage:
            self._rows.append(
                (
                    check,
                    each.code,
                    None,
                    None,
                    None,
                    None,
                    None,
                    each.file,
                    each.position,
                    each.text,
                )
            )

    def frame(self) -> DataFrame:
        """All of them."""
        found = self._session.createDataFrame(self._rows, SCHEMA)
        for frame in self._frames:
            found = found.unionByName(frame)
        return found
