"""Publishes rejects again: what was refused after a 202, once its cause is mended.

Each message is published once, however often a retry is cut short: it goes by its id, which the
window of ids keeps, and the rest stays in the reject file. Knows no HTTP.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Final

from sidecar.delivery.record_id import scoped_id
from sidecar.errors import BeingRetried, HeldBack, InDoubt, SidecarError, retry_after
from sidecar.publish.batch import Ack, Committed
from sidecar.publish.id_search import CannotTell
from sidecar.publish.message import Message
from sidecar.publish.publisher import Publisher
from sidecar.spool.rejects import Reject, RejectFile

TOGETHER_MAX: Final = 256
"""Messages of a reject that are published at the same time: enough for large batches, and few
enough that a policy that still denies is asked little."""

Search = Callable[[str, Collection[bytes], int], Awaitable[dict[bytes, Committed]]]
"""Topic, ids and the time in microseconds since which they may be in the log."""
Forget = Callable[[str, bytes], None]
"""Topic and an id that is surely not in the log."""


@dataclass(slots=True)
class RetriedAll:
    """What came of a retry of many: messages published, and the rejects that stay, with why."""

    messages: int = 0
    refused: list[tuple[Reject, SidecarError]] = field(default_factory=list)


class RejectRetry:
    """Retries. Belongs to the event loop."""

    def __init__(
        self,
        rejects: RejectFile,
        publisher: Publisher,
        search: Search,
        forget: Forget,
        *,
        timeout_s: float,
        late_s: float,
    ) -> None:
        """`late_s` is how long an earlier try, whose answer was lost, may still reach the log."""
        self._rejects = rejects
        self._publisher = publisher
        self._search = search
        self._forget = forget
        self._timeout_s = timeout_s
        self._late_s = late_s
        self._under_way: set[int] = set()

    async def one(self, reject: Reject, *, force: bool = False) -> int:
        """Publish a reject's messages in their order; how many there were.

        What is refused again stays, and its error is raised. `force` publishes also what may be in
        the log already and cannot be looked up.
        """
        if reject.id in self._under_way:
            raise BeingRetried(f"reject {reject.id} is being retried at this moment")
        self._under_way.add(reject.id)
        try:
            return await self._retry(reject, force=force)
        finally:
            self._under_way.discard(reject.id)

    async def all(self, rejects: Sequence[Reject], *, force: bool = False) -> RetriedAll:
        """Retry each, oldest first. One that is refused again stops only those that are behind it
        in its partition: they would overtake it."""
        done = RetriedAll()
        stays: dict[tuple[str, int], int] = {}
        for reject in rejects:
            place, before = (reject.topic, reject.partition), reject.messages
            if place in stays:
                text = f"it is behind reject {stays[place]}, which stays; retry it by its id"
                done.refused.append((reject, HeldBack(f"{text} to publish it before that one")))
                continue
            try:
                done.messages += await self.one(reject, force=force)
            except SidecarError as error:
                left = self._rejects.find(reject.id)
                done.messages += before - (left.messages if left is not None else 0)
                done.refused.append((reject, error))
                stays[place] = reject.id
        return done

    async def _retry(self, reject: Reject, *, force: bool) -> int:
        left = await self._not_in_the_log(reject, force=force)
        error: SidecarError | None = None
        while left and error is None:
            together, later = left[:TOGETHER_MAX], left[TOGETHER_MAX:]
            outcomes = await asyncio.gather(
                *(self._publish(message, reject.partition) for message in together)
            )
            failed = []
            for message, outcome in zip(together, outcomes, strict=True):
                if outcome is not None:
                    failed.append(message)
                    error = error or outcome
            left = [*failed, *later]
            if left:
                self._rejects.keep_only(reject, left)
        if error is not None:
            raise error
        self._rejects.drop([reject.id])
        return reject.messages

    async def _publish(self, message: Message, partition: int) -> SidecarError | None:
        try:
            await self._publisher.publish(message, Ack.AUTO, self._timeout_s, partition)
        except SidecarError as error:
            return error
        return None

    async def _not_in_the_log(self, reject: Reject, *, force: bool) -> list[Message]:
        """The messages that an earlier try, whose answer was lost, has not brought there."""
        messages = reject.records()
        if not reject.doubtful:
            return messages
        ids = {message: scoped_id(message.id, message.headers) or b"" for message in messages}
        since_us = min(reject.at_us, *(message.event_us for message in messages))
        try:
            async with asyncio.timeout(self._timeout_s):
                found = await self._search(reject.topic, ids.values(), since_us)
        except (CannotTell, TimeoutError) as error:
            if not force:
                raise InDoubt(
                    f"reject {reject.id} may be in the log already, and the log cannot be asked "
                    f"({error or 'no answer in time'}). Ask again, or say force=true to publish it "
                    "all the same"
                ) from error
            found = {}
        missing = [message for message in messages if ids[message] not in found]
        left_s = self._late_s - max(0.0, time.time() - reject.at_us / 1e6)
        if missing and left_s > 0 and not force:
            raise InDoubt(
                f"reject {reject.id} may still reach the log, by an earlier try that had no "
                f"answer; ask again in {left_s:.0f} s",
                headers=retry_after(left_s),
            )
        for message in missing:
            self._forget(reject.topic, ids[message])
        return missing
