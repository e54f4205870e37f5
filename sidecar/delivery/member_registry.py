"""The streams of this sidecar that are members of a subscription, for those who settle by HTTP.

An app that reads server-sent events or lines has no way back on its connection: it acknowledges
by a request of its own, which finds the stream that has the message in hand here.
"""

from collections.abc import Iterable, Sequence

from sidecar.delivery.offset_set import Range
from sidecar.delivery.shared_reader import SharedReader

Key = tuple[str | None, str]
"""Owner, None for the sidecar's own principal, and name."""


class MemberRegistry:
    """By owner and name. Belongs to the event loop."""

    def __init__(self) -> None:
        self._readers: dict[Key, list[SharedReader]] = {}

    def add(self, owner: str | None, name: str, reader: SharedReader) -> None:
        """A stream has joined."""
        self._readers.setdefault((owner, name), []).append(reader)

    def remove(self, owner: str | None, name: str, reader: SharedReader) -> None:
        """A stream has gone."""
        readers = self._readers.get((owner, name), [])
        if reader in readers:
            readers.remove(reader)
        if not readers:
            self._readers.pop((owner, name), None)

    def readers(self, owner: str | None, name: str) -> list[SharedReader]:
        """Those of one subscription."""
        return list(self._readers.get((owner, name), ()))

    def ack(self, owner: str | None, name: str, partition: int, ranges: Sequence[Range]) -> int:
        """Acknowledge what streams here have in hand. Returns how many messages that were."""
        return sum(reader.ack(partition, ranges) for reader in self.readers(owner, name))

    def nack(
        self, owner: str | None, name: str, partition: int, offsets: Iterable[int], delay_ms: int
    ) -> list[int]:
        """Give back what streams here have in hand. Returns what of it none has."""
        left = set(offsets)
        for reader in self.readers(owner, name):
            left.difference_update(reader.nack(partition, sorted(left), delay_ms))
        return sorted(left)

    async def flush(self, owner: str | None, name: str) -> None:
        """Wait until everything that was acknowledged here is durable."""
        for reader in self.readers(owner, name):
            await reader.session.flush()
