"""When the sidecar is to stop: whoever waits for the log gets an answer before the connections go.

What waits is stored for the next run in any case. An app that is told so, with the 202 that it
would get at its timeout, knows what it has; a connection that just ends would leave it in doubt.
"""

import asyncio
from typing import Final

from sidecar.publish.publisher import Publisher

PATIENCE_S: Final = 1.5
"""How long the log may still answer once the stop has begun: an ordinary commit takes
milliseconds, and half of the drain's 4 s must be left for storing and answering."""


class LastAnswers:
    """A hosting component, to be added after everything that publishes, so that its drain is the
    first to begin."""

    name = "last answers"

    def __init__(self, publisher: Publisher, patience_s: float = PATIENCE_S) -> None:
        self._publisher = publisher
        self._patience_s = patience_s
        self._timer: asyncio.TimerHandle | None = None

    async def start(self) -> None:
        """Nothing to do before the stop."""

    async def drain(self) -> None:
        """Begin to count; the others go on with their own drains meanwhile."""
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(self._patience_s, self._publisher.hurry)

    async def stop(self) -> None:
        """Nobody is left to be answered."""
        if self._timer is not None:
            self._timer.cancel()
