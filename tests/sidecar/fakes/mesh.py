"""Everything around a sidecar, and sidecars in this process."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

from hosting.units import Address
from tests.sidecar.fakes.authority import APP_ID, GATEKEEPER_ID, Authority
from tests.sidecar.fakes.gatekeeper import FakeGatekeeper
from tests.sidecar.fakes.issuer import FakeIssuer
from tests.sidecar.fakes.log import FakeLog


class Running:
    """A sidecar in this process, and an HTTP client for it."""

    def __init__(self, assembly: Any, task: "asyncio.Task[int]") -> None:
        self.assembly = assembly
        self._task = task
        self.client = aiohttp.ClientSession()

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.assembly.site.port}"

    async def publish(self, document: Any = None, /, **query: Any) -> tuple[int, Any]:
        async with self.client.post(
            f"{self.base}/publish", data=json.dumps(document), params=query
        ) as response:
            return response.status, await response.json(content_type=None)

    async def get(self, path: str, **query: Any) -> tuple[int, Any]:
        async with self.client.get(f"{self.base}{path}", params=query) as response:
            return response.status, await response.json(content_type=None)

    async def until(self, what: Callable[[], bool]) -> None:
        """Wait for a condition of the sidecar's own state; the test's timeout is the limit."""
        while not what():  # noqa: ASYNC110 - the state belongs to the sidecar
            await asyncio.sleep(0.005)

    async def answered(self, topic: str, partition: int = 0) -> None:
        """Wait until the gatekeeper has answered for each message that was published there."""
        await self.until(lambda: self.assembly.publisher.lanes[topic, partition].empty)

    async def connected(self) -> None:
        await self.until(lambda: bool(self.assembly.uplink.connected))

    async def down(self) -> None:
        await self.until(lambda: not self.assembly.uplink.connected)

    async def stop(self) -> int:
        await self.client.close()
        self.assembly.service.ask_to_stop()
        return await self._task


@dataclass
class Mesh:
    """Everything around a sidecar."""

    authority: Authority
    issuer: FakeIssuer
    log: FakeLog
    gatekeeper: FakeGatekeeper
    folder: Path
    sidecars: list[Running] = field(default_factory=list)

    def config(self, **changes: Any) -> Any:
        from sidecar.config import OAuthConfig, SidecarConfig, TlsFilesConfig

        certificate, key = self.folder / "app.pem", self.folder / "app.key"
        if not certificate.exists():
            self.authority.issue("app", APP_ID)
        settings: dict[str, Any] = {
            "tls": TlsFilesConfig(certificate, key, self.authority.ca),
            "gatekeepers": (self.gatekeeper.listening.url,),
            "gatekeeper_id": GATEKEEPER_ID,
            "oauth": OAuthConfig(
                issuer=self.issuer.listening.url,
                client_id="app",
                ca=self.authority.ca,
                audience="urn:sidegate",
            ),
            "data": self.folder / "data",
            "environment": "development",
            "listen": Address.parse("127.0.0.1:0"),
        }
        return SidecarConfig(**{**settings, **changes})

    async def sidecar(
        self, *, connected: bool = True, files: Any = None, **changes: Any
    ) -> Running:
        """Start one; by default wait until it is connected."""
        from sidecar.service import assemble

        assembly = assemble(self.config(**changes), files)
        task = asyncio.create_task(assembly.service.run())
        running = Running(assembly, task)
        self.sidecars.append(running)
        await running.until(lambda: assembly.service.phase.value == "running" or task.done())
        assert not task.done(), "the sidecar ended at once"
        if connected:
            await running.connected()
        return running
