"""The gatekeeper as a process, before the real core: what the parts do only together."""

import asyncio
import contextlib
import json
import resource
import signal
import socket
import ssl
import sys
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID

from gatekeeper.service import allow_open_files
from log_format.envelope import provenance_signed_bytes
from log_format.frame import Frame, iter_frames

Make = Callable[..., bytes]
FRAMES = "application/vnd.sidegate.frames"
START_S_MAX = 60.0
"""For an interpreter and its services, on a machine that runs tests on all of its cores."""
TRIES_MAX = 10

CORE = """\
environment: development
listen: "127.0.0.1:{core}"
health: "127.0.0.1:{core_health}"
tls: {{certificate: core.pem, key: core.key, ca: ca.pem}}
admit: ["spiffe://example/gatekeeper"]
data: core-data
auto_create_topics: true
log: {{disk_reserve_bytes: 1MiB}}
"""
GATEKEEPER = """\
environment: development
id: spiffe://example/gatekeeper
listen: "127.0.0.1:{gatekeeper}"
admin: "127.0.0.1:{admin}"
health: "127.0.0.1:{health}"
tls: {{certificate: gatekeeper.pem, key: gatekeeper.key, ca: ca.pem}}
trust_domains: {{example: {{bundle: ca.pem}}}}
core: {{url: "https://127.0.0.1:{core}", spiffe_id: "spiffe://example/core"}}
signing_key: signing.pem
policy: policy.yaml
data: gatekeeper-data
"""
POLICY = """\
version: 1
issuers:
  corp: {{issuer: {issuer}, audience: urn:sidegate, algorithms: [ES256], ca: {ca}}}
principals:
  billing: {{spiffe: spiffe://example/app, issuer: corp, client_id: billing}}
topics:
  orders.*: {{publish: [billing], subscribe: [billing], replay: [billing], admin: [billing]}}
  _audit: {{audit: [billing]}}
"""


def free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        bound = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in bound:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in bound]


@dataclass
class World:
    """A core and a gatekeeper, each a process of its own."""

    folder: Path
    ports: dict[str, int]
    public_key: Ed25519PublicKey
    leaf: Any
    token: str
    processes: dict[str, asyncio.subprocess.Process] = field(default_factory=dict)

    async def run(self, service: str) -> None:
        log = (self.folder / f"{service}.log").open("ab")
        self.processes[service] = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "sidegate", service),
            *("--config", str(self.folder / f"{service}.yaml")),
            stdout=log,
            stderr=log,
        )
        log.close()
        port = self.ports["core_health" if service == "core" else "health"]
        deadline = time.monotonic() + START_S_MAX
        async with aiohttp.ClientSession() as session:
            while True:
                with contextlib.suppress(aiohttp.ClientError):
                    async with session.get(f"http://127.0.0.1:{port}/readyz") as answer:
                        if answer.status == 200:
                            return
                text = (self.folder / f"{service}.log").read_text()
                assert self.processes[service].returncode is None, text
                assert time.monotonic() < deadline, text
                await asyncio.sleep(0.05)

    async def end(self, service: str, number: int = signal.SIGTERM) -> int:
        process = self.processes.pop(service)
        if process.returncode is None:
            process.send_signal(number)
        async with asyncio.timeout(START_S_MAX):
            return await process.wait()

    def session(self) -> aiohttp.ClientSession:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.load_verify_locations(self.folder / "ca.pem")
        context.load_cert_chain(self.folder / "client.pem")
        return aiohttp.ClientSession(
            f"https://127.0.0.1:{self.ports['gatekeeper']}",
            connector=aiohttp.TCPConnector(ssl=context),
            headers={"Authorization": f"Bearer {self.token}"},
        )


@pytest.fixture
async def world(
    tmp_path: Path, live_root: Any, new_mint: Callable[..., Any], issuer_server: Any
) -> AsyncIterator[World]:
    names = ("core", "core_health", "gatekeeper", "admin", "health")
    ports = dict(zip(names, free_ports(len(names)), strict=True))
    mint = new_mint(issuer=issuer_server.url)
    issuer_server.serve_keys(mint.jwks)
    both = [ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH]
    for name in ("core", "gatekeeper"):
        leaf = live_root.leaf(f"spiffe://example/{name}", eku=both)
        (tmp_path / f"{name}.pem").write_bytes(leaf.pem)
        (tmp_path / f"{name}.key").write_bytes(leaf.key_pem)
        (tmp_path / f"{name}.key").chmod(0o600)
    leaf = live_root.leaf("spiffe://example/app")
    (tmp_path / "client.pem").write_bytes(leaf.pem + leaf.key_pem)
    (tmp_path / "ca.pem").write_bytes(live_root.pem)
    key = Ed25519PrivateKey.generate()
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (tmp_path / "signing.pem").write_bytes(pem)
    (tmp_path / "signing.pem").chmod(0o600)
    (tmp_path / "core.yaml").write_text(CORE.format(**ports))
    (tmp_path / "gatekeeper.yaml").write_text(GATEKEEPER.format(**ports))
    policy = POLICY.format(issuer=issuer_server.url, ca=issuer_server.ca)
    (tmp_path / "policy.yaml").write_text(policy)
    token = mint.token(leaf.thumbprint, time.time())
    world = World(tmp_path, ports, key.public_key(), leaf, token)
    try:
        await world.run("core")
        await world.run("gatekeeper")
        yield world
    finally:
        for service in list(world.processes):
            await world.end(service)


async def append(session: aiohttp.ClientSession, *frames: bytes) -> list[dict[str, Any]]:
    async with session.post(
        "/v1/append", data=b"".join(frames), headers={"Content-Type": FRAMES}
    ) as answer:
        assert answer.status == 200, await answer.text()
        results: list[dict[str, Any]] = (await answer.json())["results"]
        return results


async def read(session: aiohttp.ClientSession, topic: str) -> list[Frame]:
    path = f"/v1/read?topic={topic}&partition=0&offset=0"
    async with session.get(path) as answer:
        assert answer.status == 200, await answer.text()
        return list(iter_frames(await answer.read()))


async def test_a_message_goes_in_through_the_gate_and_comes_out_with_its_proof(
    world: World, frame: Make
) -> None:
    async with world.session() as session:
        (result,) = await append(session, frame("orders.eu"))
        assert (result["base_offset"], result["durability"]) == (0, "committed")
        (denied,) = await append(session, frame("secret"))
        assert (denied["error"], denied["reason"]) == ("denied", "no_rule")
        (kept,) = await read(session, "orders.eu")
        assert kept.envelope.provenance is not None
        assert kept.envelope.provenance.principal == "billing"
        world.public_key.verify(
            kept.envelope.provenance.signature, provenance_signed_bytes(kept.envelope.raw)
        )
        async with session.ws_connect("/v1/stream") as socket:
            opening = {"type": "open", "topic": "orders.eu", "from": "earliest"}
            await socket.send_json({**opening, "credit_bytes": 1 << 20})
            assert (await socket.receive_json())["type"] == "opened"
            assert (await socket.receive_bytes())[:4] == b"SGBF"
            await append(session, frame("orders.eu", sequence=1))
            assert await socket.receive_bytes()


async def test_the_decision_log_is_a_topic_of_the_real_core(world: World, frame: Make) -> None:
    async with world.session() as session:
        (denied,) = await append(session, frame("secret"))
        async with asyncio.timeout(START_S_MAX):
            records: list[dict[str, Any]] = []
            while not any(r.get("decision_id") == denied["decision_id"] for r in records):
                records = [
                    json.loads(value or b"")
                    for item in await read(session, "_audit")
                    for value in item.columns().value
                ]
        assert {r["action"] for r in records} == {"publish", "audit"}


async def test_a_revocation_by_an_operator_reaches_the_gate_within_a_second(
    world: World, frame: Make
) -> None:
    secret = (world.folder / "gatekeeper-data/operators/local").read_text().strip()
    url = f"http://127.0.0.1:{world.ports['admin']}/revocations"
    headers = {"Authorization": f"Bearer {secret}"}
    client = {"kind": "client", "value": "billing"}
    async with world.session() as session, aiohttp.ClientSession(headers=headers) as operator:

        async def change(expected: int, **more: Any) -> float:
            """Revoke, or lift it; how long it took until the gate knew."""
            began, status = time.monotonic(), None
            async with operator.post(url, json={**client, **more}) as answer:
                assert answer.status == 201, await answer.text()
            while status != expected:
                async with session.get("/v1/whoami") as answer:
                    status = answer.status
                    assert status in (200, 401), await answer.text()
            return time.monotonic() - began

        await append(session, frame("orders.eu"))
        took = [await change(401)]
        # A machine that is busy with something else is given another chance.
        while min(took) >= 1.0:
            assert len(took) < TRIES_MAX, took
            await change(200, until_us=1)
            took.append(await change(401))


async def test_either_process_may_restart_and_nothing_is_doubled(world: World, frame: Make) -> None:
    async with world.session() as session:
        await append(session, frame("orders.eu"))
        assert await world.end("gatekeeper") == 0
        await world.run("gatekeeper")
        (again,) = await append(session, frame("orders.eu"))
        assert (again["base_offset"], again["duplicate"]) == (0, True)
        await world.end("core", signal.SIGKILL)
        (lost,) = await append(session, frame("orders.eu", sequence=1))
        assert (lost["error"], lost["retryable"]) == ("unavailable", True)
        await world.run("core")
        async with asyncio.timeout(START_S_MAX):
            retried = await append(session, frame("orders.eu", sequence=1))
            while "error" in retried[0]:
                await asyncio.sleep(retried[0]["retry_after_ms"] / 10_000)
                retried = await append(session, frame("orders.eu", sequence=1))
        assert [item.envelope.stamp.base_offset for item in await read(session, "orders.eu")] == [
            0,
            1,
        ]


async def test_readiness_tells_the_truth_about_the_core(world: World) -> None:
    await world.end("core", signal.SIGKILL)
    url = f"http://127.0.0.1:{world.ports['health']}/readyz"
    async with aiohttp.ClientSession() as session, asyncio.timeout(START_S_MAX):
        while True:
            async with session.get(url) as answer:
                told = await answer.json()
                if answer.status == 503:
                    break
    assert told["checks"]["core"]["reachable"] is False
    assert told["checks"]["policy"]["ready"] is True


def test_the_process_may_open_as_many_files_as_the_system_lets_it() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    allow_open_files(before[0])
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == before
