"""The cleaner (first form)."""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from core_log.clock import Clock
from core_log.files import Files
from core_log.journal import Journal
from core_log.options import Retention
from core_log.results import CleanReport


class Cleaned(NamedTuple):
    """x"""

    report: CleanReport
    roll: bool


class Cleaner:
    """placeholder"""

    def __init__(self, journal: Journal, files: Files, directory: Path, clock: Clock) -> None:
        self._journal = journal

    def clean(self, retention: Mapping[str, Retention], now_us: int) -> Cleaned:
        """placeholder"""
        return Cleaned(CleanReport(0, 0, 0, 0, 0, ()), False)
