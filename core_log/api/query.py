"""The parameters of a URL: each at most once, none unknown, all problems at once. Pure."""

from collections.abc import Iterable

from core_log.control.json_fields import INTEGER_MAX


class BadQuery(Exception):
    """A query that can't be answered; the message lists every problem."""


class Query:
    """The parameters of one request. Take those that are known, then call `finish`."""

    def __init__(self, items: Iterable[tuple[str, str]]) -> None:
        self.problems: list[str] = []
        self._values: dict[str, str] = {}
        self._taken: set[str] = set()
        for name, value in items:
            if name in self._values:
                self.problems.append(f"{name[:64]}: is given twice")
            self._values[name] = value

    def text(self, name: str) -> str | None:
        """A parameter as it is, or None where it is absent."""
        self._taken.add(name)
        return self._values.get(name)

    def integer(self, name: str, default: int, *, least: int = 0, most: int = INTEGER_MAX) -> int:
        """A whole number between `least` and `most`."""
        text = self.text(name)
        if text is None:
            return default
        if text.isascii() and text.isdigit() and len(text) <= 16 and least <= int(text) <= most:
            return int(text)
        self.problems.append(f"{name}: must be an integer between {least} and {most}")
        return default

    def finish(self) -> None:
        """Raise BadQuery if anything was wrong."""
        known = ", ".join(sorted(self._taken)) or "none"
        for name in self._values:
            if name not in self._taken:
                self.problems.append(f"{name[:64]}: is not known here; known are {known}")
        if self.problems:
            raise BadQuery("; ".join(self.problems))
