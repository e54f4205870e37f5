"""The signer as a process of its own: it signs extensions of what it signed, and nothing else."""

import asyncio
import os
from collections.abc import AsyncIterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from core_log.tree.remote_signer import RemoteSigner
from core_log.tree.signer_config import SignerConfig
from core_log.tree.signer_service import make_service
from core_log.tree.signing import NotAnExtension, SignerUnavailable, verify
from hosting.units import Address
from log_format.checkpoint_note import TreeHead, verified_signatures
from log_format.note import parse_note
from log_format.tree import consistency_proof, nodes_of, root_of

LEAVES = [sha256(number.to_bytes(8)).digest() for number in range(50)]


def head(size: int, leaves: list[bytes] = LEAVES) -> TreeHead:
    return TreeHead("sidegate/00", size, root_of(leaves[:size]))


def proof(old: int, new: int) -> list[bytes]:
    return consistency_proof(old, new, nodes_of(LEAVES))


@pytest.fixture
async def start_signer(
    socket_folder: Path, tmp_path: Path, signing_key: Path
) -> AsyncIterator[Any]:
    running = []

    async def start(**changes: Any) -> Any:
        values: dict[str, Any] = {
            "listen": Address(path=socket_folder / "signer"),
            "signing_key": signing_key,
            "data": tmp_path / "signer",
            "admit_uids": (os.getuid(),),
        }
        service = make_service(SignerConfig(**{**values, **changes}))
        ended = asyncio.create_task(service.run())
        waits = [asyncio.ensure_future(service.started.wait()), ended]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        waits[0].cancel()
        running.append((service, ended))
        return service, ended

    yield start
    for service, ended in running:
        service.ask_to_stop()
        await ended


@pytest.fixture
def ask(socket_folder: Path) -> Any:
    async def ask(method: str, *args: Any) -> Any:
        signer = RemoteSigner(socket_folder / "signer", "sidegate/00")
        return await asyncio.to_thread(getattr(signer, method), *args)

    return ask


async def test_it_signs_what_extends_and_refuses_what_does_not(
    start_signer: Any, ask: Any, caplog: Any
) -> None:
    await start_signer()
    note = await ask("sign", head(10), None, [])
    key = await ask("key")
    assert verified_signatures(note, [key], verify)
    await ask("sign", head(30), head(10), proof(10, 30))
    rewritten = [sha256(b"x").digest(), *LEAVES[1:]]
    with pytest.raises(NotAnExtension, match="does not extend the 30") as refused:
        await ask("sign", head(40, rewritten), head(30), proof(30, 40))
    assert refused.value.head == head(30)
    assert "NOT SIGNED" in caplog.text
    with pytest.raises(NotAnExtension, match="30 leaves were signed; 20"):
        await ask("sign", head(20), head(10), proof(10, 20))


async def test_it_remembers_across_restarts(start_signer: Any, ask: Any) -> None:
    service, ended = await start_signer()
    await ask("sign", head(10), None, [])
    service.ask_to_stop()
    assert await ended == 0
    await start_signer()
    with pytest.raises(NotAnExtension, match="from the 10 leaves") as refused:
        await ask("sign", head(20), None, [])
    assert refused.value.head == head(10)
    await ask("sign", head(20), head(10), proof(10, 20))


async def test_strangers_are_not_admitted(start_signer: Any, ask: Any) -> None:
    await start_signer(admit_uids=(os.getuid() + 1,))
    with pytest.raises(SignerUnavailable, match="answered 403"):
        await ask("key")


async def test_a_key_that_others_may_read_stops_it(start_signer: Any, signing_key: Path) -> None:
    os.chmod(signing_key, 0o644)  # noqa: PTH101
    _, ended = await start_signer()
    assert await ended == 1


async def test_a_request_that_makes_no_sense_is_refused(
    start_signer: Any, ask: Any, socket_folder: Path
) -> None:
    await start_signer()
    signer = RemoteSigner(socket_folder / "signer", "sidegate/00")
    good = {"checkpoint": head(3).text, "from": 0, "proof": []}
    for change in (
        {"checkpoint": "x"},
        {"checkpoint": None},
        {"from": "0"},
        {"from": True},
        {"proof": ["zz"]},
        {"proof": ["00"] * 65},
        {"more": 1},
    ):
        status, answer = await asyncio.to_thread(signer._ask, "POST", "/sign", {**good, **change})
        assert (status, answer["code"]) == (400, "bad_request"), change


async def test_a_core_signs_through_it_and_goes_on_after_either_restarts(
    start_signer: Any, start_core: Any, socket_folder: Path, frames: Any, eventually: Any
) -> None:
    service, ended = await start_signer()
    address = Address(path=socket_folder / "signer")
    core = await start_core(signer=address)
    await core.call("POST", "/v1/topics", json={"name": "orders"})
    await core.append(frames.encoded())

    async def size(leaf: int) -> int:
        _, body, _ = await core.call("GET", f"/v1/checkpoint?wait_leaf={leaf}&wait_ms=5000")
        return int(parse_note(body).text.split("\n")[1])

    assert await size(0) == 1
    service.ask_to_stop()
    await ended
    await core.append(frames.encoded())
    await eventually(lambda: core.core.checkpoints.problem)
    assert core.core.service.readiness().ready
    await start_signer()
    assert await size(1) == 2
    # The core forgets what the signer has signed: it proves its tree from there.
    await core.stop()
    (core.config.data / "tree/checkpoint").unlink()
    core = await start_core(signer=address)
    await core.append(frames.encoded())
    assert await size(2) == 3
