"""A map that forgets what was not used for the longest time once it is full. Pure.

Not for use from several threads.
"""

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class BoundedCache(Generic[Key, Value]):
    """At most `entries_max` entries. Invariant: the least recently used one stands first."""

    def __init__(self, entries_max: int) -> None:
        if entries_max < 1:
            raise ValueError("entries_max: must be at least 1")
        self.entries_max = entries_max
        self._entries: OrderedDict[Key, Value] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: Key) -> Value | None:
        """The value of `key`, which counts as used now; None when it is not here."""
        value = self._entries.get(key)
        if value is not None:
            self._entries.move_to_end(key)
        return value

    def put(self, key: Key, value: Value) -> None:
        """Keep `value`; the least recently used entry makes room when there is none."""
        self._entries[key] = value
        self._entries.move_to_end(key)
        if len(self._entries) > self.entries_max:
            self._entries.popitem(last=False)

    def discard(self, key: Key) -> None:
        """Forget `key`, if it is here."""
        self._entries.pop(key, None)

    def clear(self) -> None:
        """Forget everything."""
        self._entries.clear()
