"""The issuers in force, each with the cache of its keys. Replaced when a new policy comes.

Keys are kept over a change that does not concern where they come from. Used from one event loop.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial

from gatekeeper.identity.jwks import KeyCache, KeyLimits
from gatekeeper.identity.key_fetcher import fetch_keys
from gatekeeper.identity.trust import IssuerSettings


@dataclass(frozen=True, slots=True, eq=False)
class Issuer:
    """One issuer. The same object stays in force as long as its settings do."""

    settings: IssuerSettings
    keys: KeyCache


class Issuers:
    """By their `iss` claim. A replaced issuer's fetch is ended by the next `refresh_ahead`."""

    def __init__(self, *, clock: Callable[[], float], limits: KeyLimits) -> None:
        self._clock = clock
        self._limits = limits
        self._by_url: dict[str, Issuer] = {}
        self._retired: list[KeyCache] = []

    def __iter__(self) -> Iterator[Issuer]:
        return iter(self._by_url.values())

    def __len__(self) -> int:
        return len(self._by_url)

    def get(self, url: str) -> Issuer | None:
        """The issuer whose `iss` claim is exactly `url`."""
        return self._by_url.get(url)

    def replace(self, settings: Iterable[IssuerSettings]) -> None:
        """Put these in the place of those before. Raises ValueError and changes nothing when a
        setting is wrong."""
        wanted = tuple(settings)
        problems = [
            f"issuers.{item.name}.{key}: {text}" for item in wanted for key, text in item.problems()
        ]
        if len({item.issuer for item in wanted}) != len(wanted):
            problems.append("issuers: two entries have the same `issuer`")
        if problems:
            raise ValueError("; ".join(problems))
        before = self._by_url
        self._by_url = {item.issuer: self._made(item, before.get(item.issuer)) for item in wanted}
        kept = [issuer.keys for issuer in self._by_url.values()]
        self._retired += [issuer.keys for issuer in before.values() if issuer.keys not in kept]

    async def refresh_ahead(self) -> None:
        """Let every issuer fetch its keys when it is time. Called by a timer; does not wait."""
        for issuer in self._by_url.values():
            issuer.keys.refresh_ahead()
        retired, self._retired = self._retired, []
        await asyncio.gather(*(cache.close() for cache in retired))

    async def close(self) -> None:
        """End all fetches."""
        caches = [issuer.keys for issuer in self._by_url.values()] + self._retired
        await asyncio.gather(*(cache.close() for cache in caches))

    def _made(self, settings: IssuerSettings, before: Issuer | None) -> Issuer:
        if before is not None and before.settings == settings:
            return before
        if before is not None and _source(before.settings) == _source(settings):
            return Issuer(settings, before.keys)
        fetch = partial(fetch_keys, settings)
        return Issuer(
            settings, KeyCache(settings.name, fetch, clock=self._clock, limits=self._limits)
        )


def _source(settings: IssuerSettings) -> tuple[object, ...]:
    """What decides which keys are fetched, and from where."""
    return settings.name, settings.issuer, settings.algorithms, settings.ca, settings.jwks_uri
