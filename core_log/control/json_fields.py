"""Reads a JSON object member by member and collects everything that is wrong with it.

Pure. Callers take the members that they know and call `finish`, which raises once for all
problems, unknown members included: a misspelt member must not pass for an absent one.
"""

from collections.abc import Mapping, Sequence
from typing import Final, TypeVar

INTEGER_MAX: Final = 2**53 - 1
"""The greatest integer that every JSON reader keeps exactly (RFC 8259, section 6)."""

ChoiceT = TypeVar("ChoiceT", bound=str)


class Fields:
    """The members of one object. `path` is the prefix of its members' names in messages."""

    def __init__(self, value: object, error: type[Exception], *, what: str, path: str = "") -> None:
        self._error = error
        self._path = path
        self._taken: set[str] = set()
        self.problems: list[str] = []
        if not isinstance(value, Mapping):
            raise error(f"{what} must be a JSON object, not {type(value).__name__}")
        self._value: Mapping[str, object] = value

    def __contains__(self, key: str) -> bool:
        return key in self._value

    def raw(self, key: str) -> object:
        """The member as it is, None where it is absent."""
        self._taken.add(key)
        return self._value.get(key)

    def problem(self, key: str, text: str) -> None:
        """Note that something is wrong with a member."""
        self.problems.append(f"{self._path}{key}: {text}")

    def integer(self, key: str, default: int, *, least: int, most: int = INTEGER_MAX) -> int:
        """An integer between `least` and `most`; `default` where it is absent."""
        value = self.optional_integer(key, least=least, most=most)
        return default if value is None else value

    def optional_integer(self, key: str, *, least: int, most: int = INTEGER_MAX) -> int | None:
        """An integer between `least` and `most`, or None where it is absent or null."""
        value = self.raw(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            self.problem(key, f"must be an integer between {least} and {most}")
            return None
        return value

    def choice(self, key: str, choices: Sequence[ChoiceT]) -> ChoiceT | None:
        """One of the words `choices`, or None where it is absent."""
        value = self.raw(key)
        if key not in self._value:
            return None
        for choice in choices:
            if value == choice:
                return choice
        self.problem(key, f"must be one of {', '.join(choices)}")
        return None

    def text(self, key: str, *, bytes_max: int) -> str | None:
        """A string of 1 to `bytes_max` bytes of UTF-8, or None where it is absent or null."""
        value = self.raw(key)
        if value is None:
            return None
        if not isinstance(value, str) or not 1 <= len(value.encode()) <= bytes_max:
            self.problem(key, f"must be a string of 1 to {bytes_max} bytes")
            return None
        return value

    def nested(self, key: str) -> "Fields | None":
        """The members of an object inside this one, or None where it is absent."""
        value = self.raw(key)
        if key not in self._value:
            return None
        if not isinstance(value, Mapping):
            self.problem(key, "must be an object")
            return None
        inner = Fields(value, self._error, what=key, path=f"{self._path}{key}.")
        inner.problems = self.problems
        return inner

    def close(self) -> None:
        """Note each member that nobody asked for."""
        for key in self._value:
            if key not in self._taken:
                known = ", ".join(sorted(self._taken))
                self.problem(str(key)[:64], f"is not known here; known are {known}")

    def finish(self) -> None:
        """Raise the error that this reader was made with, if anything was wrong."""
        self.close()
        if self.problems:
            raise self._error("; ".join(self.problems))
