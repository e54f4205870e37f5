"""Revocations as they happen: a long poll at the core that never ends.

Every gatekeeper follows the same list in the control log, so what one operator revokes anywhere is
refused everywhere within a second. Until the list has been read once, nobody is let in: without it
nobody can tell who was revoked. The poll is also how the gatekeeper knows that the core is there.
"""

import asyncio
import logging
import math
import time
from collections.abc import Callable
from typing import Any, Final

import orjson

from gatekeeper.core.upstream import RETRY_AFTER_S, CoreClient, OnBehalf
from gatekeeper.errors import CoreUnavailable
from gatekeeper.identity.authenticator import Authenticator
from gatekeeper.identity.revocation import (
    BadRevocation,
    Revocation,
    RevocationSet,
    parse_revocation,
)

log = logging.getLogger("sidegate.gatekeeper.revocations")

WAIT_MS: Final = 10_000
"""How long the core holds a poll when nothing is new. A core that is gone without a word is noticed
after this and the answer's own limit."""
BACKOFF_S: Final = (0.05, 0.1, 0.2, 0.4, 0.8)
"""Waits after a poll that failed; the last one repeats, so that a revocation is known within a
second of the core's return."""


class RevocationFeed:
    """A hosting component. Lives in one event loop."""

    name = "revocations"

    def __init__(
        self,
        core: CoreClient,
        authenticator: Authenticator,
        *,
        gatekeeper_id: str,
        changed: Callable[[], None],
    ) -> None:
        self._core = core
        self._authenticator = authenticator
        self._behalf = OnBehalf(gatekeeper_id, "gatekeeper", "revocations")
        self._changed = changed
        self._task: asyncio.Task[None] | None = None
        self.known = False
        self.reachable = False
        self.problem: str | None = None
        self._records: dict[tuple[object, ...], dict[str, Any]] = {}

    @property
    def version(self) -> int:
        """The list's version that is in force here."""
        return self._authenticator.revocations.version

    def in_force(self) -> list[dict[str, Any]]:
        """The records in force, as the core gave them."""
        now_us = time.time_ns() // 1000
        return [record for record in self._records.values() if _until_us(record) > now_us]

    def require_known(self) -> None:
        """Raise CoreUnavailable until the list has been read once."""
        if not self.known:
            raise CoreUnavailable("the list of revocations is not known yet", RETRY_AFTER_S)

    async def start(self) -> None:
        """Begin to follow. The core need not be there yet."""
        self._task = asyncio.create_task(self._follow(), name="revocations")

    async def drain(self) -> None:
        """Revocations count until the last request ends."""

    async def stop(self) -> None:
        """End the poll."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _follow(self) -> None:
        failures = 0
        while True:
            try:
                await self._poll()
                failures = 0
            except (CoreUnavailable, ValueError) as error:
                if self.reachable or failures == 0:
                    log.warning(
                        "revocations can't be read from the core",
                        extra={"fields": {"error": str(error)}},
                    )
                self.reachable = False
                await asyncio.sleep(BACKOFF_S[min(failures, len(BACKOFF_S) - 1)])
                failures += 1

    async def _poll(self) -> None:
        # The first poll, and one after a failure, does not wait: it asks whether the core is there.
        wait_ms = WAIT_MS if self.reachable else 0
        query = {"after": str(self.version if self.known else 0), "wait_ms": str(wait_ms)}
        answer = await self._core.ask(
            "GET",
            "/v1/revocations",
            self._behalf,
            query=query,
            timeout_s=wait_ms / 1000 + 5.0,
        )
        if answer.status != 200:
            raise ValueError(f"the core answered {answer.status}")
        listed = orjson.loads(answer.body)
        self._take(*_read(listed))

    def _take(self, version: int, records: list[Any]) -> None:
        """Put a new set in the old one's place, whole."""
        present = self._authenticator.revocations
        if version < present.version:
            log.error(
                "the core's list of revocations went back; it is read anew",
                extra={"fields": {"had": present.version, "got": version}},
            )
            self._authenticator.revocations = RevocationSet()
            self._records = {}
            self.known = False
            return
        parsed = self._parsed(records)
        if parsed or version != present.version or not self.known:
            self._authenticator.revocations = present.extended(version, parsed, time.time())
            self._remember(records)
            self._changed()
        if parsed:
            log.info("revocations taken up", extra={"fields": {"count": len(parsed)}})
        if not self.reachable:
            log.info("the core's revocations are followed", extra={"fields": {"version": version}})
        self.known = True
        self.reachable = True

    def _remember(self, records: list[Any]) -> None:
        for record in records:
            if isinstance(record, dict):
                key = (record.get("kind"), record.get("value"), record.get("issuer"))
                self._records[key] = record
        now_us = time.time_ns() // 1000
        kept = {key: it for key, it in self._records.items() if _until_us(it) > now_us}
        self._records = kept

    def _parsed(self, records: list[Any]) -> list[Revocation]:
        parsed: list[Revocation] = []
        for record in records:
            try:
                parsed.append(parse_revocation(record))
            except (BadRevocation, AttributeError) as error:
                # It revokes something, and nobody here knows what: an operator has to look.
                self.problem = f"a revocation can't be applied: {error}"
                log.critical("revocation unknown", extra={"fields": {"error": str(error)}})
        return parsed


def _read(listed: object) -> tuple[int, list[Any]]:
    match listed:
        case {"version": int(version), "revocations": list(records)}:
            return version, records
        case _:
            raise ValueError("the core's answer is no list of revocations")


def _until_us(record: dict[str, Any]) -> float:
    until_us = record.get("until_us")
    return until_us if isinstance(until_us, int) else math.inf
