"""An HTTP client at the level of bytes, for what well-behaved ones never send."""

import asyncio
import json
from typing import Any


class RawCaller:
    """Sends bytes as they are."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self.writer = writer

    async def answer(self) -> tuple[int, dict[str, str], Any]:
        """Status, headers and document of the next answer."""
        head = (await self._reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = dict(line.split(": ", 1) for line in head[1:] if line)
        body = await self._reader.readexactly(int(headers["Content-Length"]))
        return int(head[0].split()[1]), headers, json.loads(body)

    async def ended(self) -> bool:
        """Whether the other side closes without another byte."""
        return await self._reader.read() == b""
