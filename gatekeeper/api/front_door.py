"""The front door: all that callers meet as one component, whose parts drain together."""

import asyncio

from gatekeeper.api.dispatch import Dispatch
from gatekeeper.api.fast_append import FastAppend
from gatekeeper.api.server import Listener
from gatekeeper.api.streams import Streams


class FrontDoor:
    """Listener, the fast way for appends, dispatch and streams."""

    name = "front door"

    def __init__(
        self, listener: Listener, fast: FastAppend, dispatch: Dispatch, streams: Streams
    ) -> None:
        self.listener = listener
        self._fast = fast
        self._dispatch = dispatch
        self._streams = streams

    async def start(self) -> None:
        """Ask streams on a timer, and listen."""
        await self._streams.start()
        await self._fast.start()
        await self.listener.start()

    async def drain(self) -> None:
        """End the streams, answer what was accepted, take nothing new."""
        self._dispatch.draining = True
        self.listener.close()
        await asyncio.gather(self._streams.drain(), self._fast.drain())
        await self._dispatch.drained()
        await self._fast.stop()
        await self.listener.drain()

    async def stop(self) -> None:
        """Close every connection."""
        await self._fast.stop()
        await self.listener.stop()
        await self._streams.stop()
