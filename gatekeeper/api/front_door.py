"""The front door: listener, dispatch and streams as one component, which drain together."""

from gatekeeper.api.dispatch import Dispatch
from gatekeeper.api.server import Listener
from gatekeeper.api.streams import Streams


class FrontDoor:
    """Listener, dispatch and streams as one component, which drain together."""

    name = "front door"

    def __init__(self, listener: Listener, dispatch: Dispatch, streams: Streams) -> None:
        self.listener = listener
        self._dispatch = dispatch
        self._streams = streams

    async def start(self) -> None:
        """Ask streams on a timer, and listen."""
        await self._streams.start()
        await self.listener.start()

    async def drain(self) -> None:
        """End the streams, answer what was accepted, take nothing new."""
        self._dispatch.draining = True
        self.listener.close()
        await self._streams.drain()
        await self._dispatch.drained()
        await self.listener.drain()

    async def stop(self) -> None:
        """Close every connection."""
        await self.listener.stop()
        await self._streams.stop()
