"""The core as a service: its order, its health port, and its end when the disk fails."""

import errno
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession

from core_log.log.files import Mode, OsFiles
from core_log.service import make_service


async def health(core: Any, path: str) -> tuple[int, Any]:
    url = f"http://127.0.0.1:{core.core.health.port}{path}"
    async with ClientSession() as session, session.get(url) as answer:
        if answer.content_type == "application/json":
            return answer.status, await answer.json()
        return answer.status, await answer.text()


async def test_the_health_port_has_health_and_metrics_and_nothing_else(
    core: Any, frames: Any
) -> None:
    await core.call("POST", "/v1/topics", json={"name": "orders"})
    await core.append(frames.encoded("orders", [b"x", b"y"]))
    assert (await health(core, "/healthz"))[0] == 200
    status, ready = await health(core, "/readyz")
    assert (status, ready["ready"]) == (200, True)
    assert ready["checks"]["storage"]["leaves"] == 1
    status, metrics = await health(core, "/metrics")
    assert status == 200
    for line in (
        "sidegate_core_appended_batches_total 1.0",
        "sidegate_core_appended_messages_total 2.0",
        "sidegate_core_group_batches_count 1.0",
        "sidegate_core_log_leaves 1.0",
        "sidegate_core_topics 2.0",
        'sidegate_core_fsync_seconds_count{file="segment"}',
    ):
        assert line in metrics, line
    assert "orders" not in metrics, "no topic is a label"
    for path in ("/v1/status", "/v1/topics", "/"):
        assert (await health(core, path))[0] == 404


async def test_readiness_tells_of_the_certificate_too(start_core: Any) -> None:
    core = await start_core(tls=True)
    _, ready = await health(core, "/readyz")
    assert ready["checks"]["tls"]["spiffe_id"] == "spiffe://example/core"


class FailingDisk(OsFiles):
    """A disk whose syncs fail once it is told to."""

    broken = False

    def open(self, path: Path, mode: Mode) -> Any:
        file = super().open(path, mode)
        disk = self

        class Failing:
            def __getattr__(self, name: str) -> Any:
                return getattr(file, name)

            def sync(self) -> None:
                if disk.broken:
                    raise OSError(errno.EIO, "the disk is broken")
                file.sync()

        return Failing()


@pytest.mark.parametrize("what", ["append", "topic"])
async def test_a_failed_sync_ends_the_process_with_an_error(
    start_core: Any, frames: Any, what: str
) -> None:
    disk = FailingDisk()
    core = await start_core(files=disk)
    await core.call("POST", "/v1/topics", json={"name": "orders"})
    disk.broken = True
    if what == "append":
        results = await core.append(frames.encoded("orders", [b"x"]))
        assert results[0]["error"] == "storage_failed"
    else:
        status, problem, _ = await core.call("POST", "/v1/topics", json={"name": "other"})
        assert (status, problem["code"]) == (503, "storage_failed")
    assert await core.ended == 1


async def test_a_service_is_made_from_a_configuration_alone(core: Any) -> None:
    assert make_service(core.config).name == "core"


async def test_nothing_of_what_was_acknowledged_is_lost_by_a_restart(
    start_core: Any, frames: Any
) -> None:
    core = await start_core(auto_create_topics=True)
    for number in range(20):
        await core.append(frames.encoded("orders", [b"%d" % number]))
    assert await core.stop() == 0
    again = await start_core()
    _, body, _ = await again.call("GET", "/v1/read?topic=orders")
    assert frames.values(body) == [b"%d" % number for number in range(20)]
    results = await again.append(frames.encoded("orders", [b"19"], sequence=19))
    assert results[0]["duplicate"], "producers are remembered too"
