"""The private API as a component: where it listens, and how it stops."""

import asyncio
import os
import stat
import threading
from pathlib import Path
from typing import Any

from core_log.log.files import Mode, OsFiles


async def test_the_socket_is_its_owners_unless_other_users_are_admitted(start_core: Any) -> None:
    core = await start_core()
    path = core.config.listen.path
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert await core.stop() == 0
    assert not path.exists()
    shared = await start_core(admit_uids=(os.getuid(), os.getuid() + 1))
    assert stat.S_IMODE(shared.config.listen.path.stat().st_mode) == 0o666


async def test_a_tcp_port_is_told_after_the_start(start_core: Any) -> None:
    core = await start_core(tls=True)
    assert core.core.api.address.port > 0


class GatedSyncs(OsFiles):
    """Files whose segments' syncs wait until they are let through."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.gate.set()

    def open(self, path: Path, mode: Mode) -> Any:
        file, gate = super().open(path, mode), self.gate

        class Gated:
            def __getattr__(self, name: str) -> Any:
                return getattr(file, name)

            def sync(self) -> None:
                gate.wait()
                file.sync()

        return Gated() if path.suffix == ".seg" and "control" not in path.parts else file


async def test_appends_that_were_accepted_are_finished_and_new_ones_refused(
    start_core: Any, frames: Any, eventually: Any
) -> None:
    files = GatedSyncs()
    core = await start_core(files=files, auto_create_topics=True)
    await core.call("GET", "/v1/topics/orders?create=1")
    files.gate.clear()
    accepted = asyncio.ensure_future(core.append(frames.encoded("orders", [b"x"])))
    await eventually(lambda: core.core.storage.disk.status().in_flight_bytes)
    stopping = asyncio.ensure_future(core.stop())
    await eventually(core.core.api._site._draining.is_set)
    assert not accepted.done()
    files.gate.set()
    assert (await accepted)[0]["durability"] == "committed"
    assert await stopping == 0
    again = await start_core()
    _, body, _ = await again.call("GET", "/v1/read?topic=orders")
    assert frames.values(body) == [b"x"]
