"""A running gatekeeper with everything real around it but the core, for the tests of its shells.

The core is a fake at the byte level: an aiohttp application behind mTLS that parses frames with
`log_format`, checks what a gatekeeper must have added, and answers as the wire says.
"""

import asyncio
import json
import ssl
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID

from gatekeeper.config import (
    AuditConfig,
    CoreConfig,
    GatekeeperConfig,
    LimitsConfig,
    TlsFilesConfig,
    TrustDomainConfig,
    WitnessConfig,
)
from gatekeeper.service import Gatekeeper
from hosting.phases import Phase
from hosting.units import Address
from log_format.body import encode_body
from log_format.checkpoint_note import TreeHead, sign_tree_head
from log_format.envelope import add_stamp, provenance_signed_bytes
from log_format.frame import Frame, encode_frame, iter_frames
from log_format.note import SignatureType, VerifierKey, parse_note
from log_format.parts import Producer, Stamp
from log_format.tree import consistency_proof, nodes_of, root_of

FRAMES = "application/vnd.sidegate.frames"
GATEKEEPER_ID = "spiffe://example/gatekeeper"
CORE_ID = "spiffe://example/core"
CLIENT_AUTH = ExtendedKeyUsageOID.CLIENT_AUTH
SERVER_AUTH = ExtendedKeyUsageOID.SERVER_AUTH

POLICY = """\
version: 1
issuers:
  corp: {{issuer: {issuer}, audience: urn:sidegate, algorithms: [ES256], ca: {ca}}}
principals:
  billing: {{spiffe: spiffe://example/app, issuer: corp, client_id: billing}}
  reader: {{spiffe: spiffe://example/reader, issuer: corp, client_id: reader}}
  auditor: {{spiffe: spiffe://example/auditor, issuer: corp, client_id: auditor}}
topics:
  orders.*: {{publish: [billing], subscribe: [billing, reader], admin: [billing]}}
  history: {{publish: [billing], replay: {{who: [reader], max_age: 1h}}}}
  archive: {{publish: [billing], replay: [reader]}}
  _audit: {{audit: [auditor]}}
{more}
"""


def new_producer(topic: str, count: int, sequence: int, producer_id: int) -> Producer:
    return Producer(topic, 0, producer_id, 0, sequence, count, 1, 1, bytes(32))


def make_frame(
    topic: str = "orders.eu",
    *,
    values: tuple[bytes, ...] = (b'{"order_id":101}',),
    sequence: int = 0,
    producer_id: int = 7,
    partition: int = 0,
) -> bytes:
    """A batch as a sidecar sends it."""
    body = encode_body([1] * len(values), list(values))
    producer = new_producer(topic, len(values), sequence, producer_id)
    return encode_frame(replace(producer, partition=partition), body)


@dataclass
class FakeCore:
    """Keeps what it is given. `fail` answers every request with that status."""

    public_key: Ed25519PublicKey
    stored: dict[tuple[str, int], list[bytes]] = field(default_factory=lambda: defaultdict(list))
    ends: dict[tuple[str, int], int] = field(default_factory=lambda: defaultdict(int))
    requests: list[tuple[str, str, dict[str, str]]] = field(default_factory=list)
    topics: dict[str, dict[str, Any]] = field(default_factory=dict)
    subscriptions: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    revocations: list[dict[str, Any]] = field(default_factory=list)
    append_age_s: float = 0.0
    fail: int | None = None
    hold: asyncio.Event | None = None
    port: int = 0
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)
    opened: list[dict[str, Any]] = field(default_factory=list)
    credits: list[int] = field(default_factory=list)
    intercept: dict[str, Callable[[web.Request], Any]] = field(default_factory=dict)
    answer_append: Callable[[list[dict[str, Any]]], Any] | None = None

    def app(self) -> web.Application:
        app = web.Application(client_max_size=64 * 1024 * 1024, middlewares=[self._seen])
        app.router.add_post("/v1/append", self._append)
        app.router.add_get("/v1/read", self._read)
        app.router.add_get("/v1/stream", self._stream)
        app.router.add_get("/v1/topics", self._list)
        app.router.add_post("/v1/topics", self._create)
        app.router.add_get("/v1/topics/{name}", self._describe)
        app.router.add_patch("/v1/topics/{name}", self._describe)
        app.router.add_delete("/v1/topics/{name}", self._delete)
        app.router.add_get("/v1/topics/{name}/offsets", self._offsets)
        app.router.add_route("*", "/v1/subscriptions", self._subscriptions)
        app.router.add_route("*", "/v1/subscriptions/{name}", self._subscriptions)
        app.router.add_route("*", "/v1/subscriptions/{name}/{rest}", self._subscriptions)
        app.router.add_route("*", "/v1/channels", self._echo)
        app.router.add_route("*", "/v1/channels/{id}", self._echo)
        app.router.add_get("/v1/status", self._status)
        app.router.add_get("/v1/revocations", self._revocations)
        app.router.add_post("/v1/revocations", self._revoke)
        return app

    @web.middleware
    async def _seen(self, request: web.Request, handler: Any) -> web.StreamResponse:
        self.requests.append((request.method, request.raw_path, dict(request.headers)))
        if self.fail is not None and request.path != "/v1/revocations":
            return web.Response(status=self.fail)
        if self.hold is not None and request.path == "/v1/append":
            await self.hold.wait()
        if request.path in self.intercept:
            return await self.intercept[request.path](request)
        return await handler(request)

    def sent(self, path: str) -> list[dict[str, str]]:
        """The headers of the requests to `path`."""
        return [head for _, raw, head in self.requests if raw.partition("?")[0] == path]

    def frames(self, topic: str, partition: int = 0) -> list[Frame]:
        return [next(iter_frames(frame)) for frame in self.stored[topic, partition]]

    def records(self, topic: str = "_audit") -> list[dict[str, Any]]:
        """The JSON records of a topic."""
        return [
            json.loads(value or b"")
            for frame in self.frames(topic)
            for value in frame.columns().value
        ]

    async def _append(self, request: web.Request) -> web.StreamResponse:
        assert request.headers["Content-Type"] == FRAMES
        results = [self.keep(frame) for frame in iter_frames(await request.read())]
        if self.answer_append is not None:
            results = self.answer_append(results)
        async with self.changed:
            self.changed.notify_all()
        return web.json_response({"results": results})

    def keep(self, frame: Frame) -> dict[str, Any]:
        """Append one frame as the core does: it must have provenance that verifies."""
        envelope = frame.envelope
        assert envelope.provenance is not None
        assert envelope.stamp is None
        frame.check_hash()
        signed = provenance_signed_bytes(envelope.raw)
        self.public_key.verify(envelope.provenance.signature, signed)
        producer = envelope.producer
        place = (producer.topic, producer.partition)
        base = self.ends[place]
        append_us = round((time.time() - self.append_age_s) * 1_000_000)
        stamp = Stamp(sum(map(len, self.stored.values())), base, append_us, 0)
        raw = add_stamp(envelope.raw, stamp)
        self.stored[place].append(raw + bytes(frame.body) + bytes(-len(frame.body) % 8))
        self.ends[place] = base + producer.count
        return {
            "topic": producer.topic,
            "partition": producer.partition,
            "base_offset": base,
            "count": producer.count,
            "leaf": stamp.leaf,
            "append_us": append_us,
            "durability": "committed",
            "duplicate": False,
        }

    def _from(self, topic: str, partition: int, offset: int) -> list[bytes]:
        kept = self.stored[topic, partition]
        return [
            frame
            for frame, parsed in zip(kept, self.frames(topic, partition), strict=True)
            if parsed.envelope.stamp is not None
            and parsed.envelope.stamp.base_offset + parsed.envelope.producer.count > offset
        ]

    async def _read(self, request: web.Request) -> web.StreamResponse:
        query = request.query
        topic, partition = query["topic"], int(query["partition"])
        frames = self._from(topic, partition, int(query["offset"]))
        end = self.ends[topic, partition]
        headers = {
            "Content-Type": FRAMES,
            "Sidegate-Start-Offset": "0",
            "Sidegate-End-Offset": str(end),
            "Sidegate-Next-Offset": str(end),
            "Server": "core/secret",
        }
        return web.Response(body=b"".join(frames), headers=headers)

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse(max_msg_size=0)
        await socket.prepare(request)
        opening = json.loads((await socket.receive()).data)
        self.opened.append(opening)
        if "subscription" in opening:
            return await self._member(socket, opening)
        topic, credit = opening["topic"], opening["credit_bytes"]
        end = self.ends[topic, 0]
        start = opening["from"]
        offset = end if start == "latest" else 0
        if isinstance(start, dict):
            offset = start.get("offsets", {}).get("0", 0)
        where = [{"partition": 0, "offset": offset, "end_offset": end}]
        await socket.send_json({"type": "opened", "topic": topic, "partitions": where})

        async def send() -> None:
            nonlocal offset, credit
            while True:
                for frame in self._from(topic, 0, offset):
                    while credit <= 0:
                        async with self.changed:
                            await self.changed.wait()
                    await socket.send_bytes(frame)
                    credit -= len(frame)
                    offset += next(iter_frames(frame)).envelope.producer.count
                async with self.changed:
                    if self.ends[topic, 0] == offset:
                        await self.changed.wait()

        sender = asyncio.create_task(send())
        try:
            async for message in socket:
                said = json.loads(message.data)
                assert said["type"] == "credit"
                self.credits.append(said["bytes"])
                credit += said["bytes"]
                async with self.changed:
                    self.changed.notify_all()
        finally:
            sender.cancel()
            await asyncio.gather(sender, return_exceptions=True)
        return socket

    async def _member(self, socket: Any, opening: dict[str, Any]) -> web.StreamResponse:
        """A member's stream: every message is answered with what was heard."""
        await socket.send_json({"type": "opened", "topic": opening["topic"]})
        for frame in self._from(opening["topic"], 0, 0):
            await socket.send_bytes(frame)
        async for message in socket:
            await socket.send_json({"type": "heard", "said": json.loads(message.data)})
        return socket

    async def _subscriptions(self, request: web.Request) -> web.StreamResponse:
        """Describes those that a test has made; anything else is answered with what was asked."""
        owner, name = request.query.get("owner"), request.match_info.get("name")
        if request.method == "GET" and name is None:
            mine = [each for each in self.subscriptions.values() if each["owner"] == owner]
            return web.json_response({"version": 9, "subscriptions": mine})
        if name is not None and (owner, name) not in self.subscriptions:
            problem = {"code": "unknown_subscription", "detail": "none", "subscription": name}
            return web.json_response(problem, status=404, content_type="application/problem+json")
        if request.method == "GET":
            return web.json_response(self.subscriptions[owner or "", name or ""])
        return await self._echo(request)

    async def _echo(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        asked = {
            "method": request.method,
            "path": request.raw_path,
            "principal": request.headers["Sidegate-Principal"],
            "topic": request.headers.get("Sidegate-Topic"),
            "if_match": request.headers.get("If-Match"),
            "body": json.loads(body) if body else None,
        }
        return web.json_response(asked)

    async def _list(self, request: web.Request) -> web.StreamResponse:
        return web.json_response({"topics": list(self.topics.values())})

    async def _create(self, request: web.Request) -> web.StreamResponse:
        described = await request.json()
        self.topics[described["name"]] = described
        return web.json_response(described, status=201)

    async def _describe(self, request: web.Request) -> web.StreamResponse:
        name = request.match_info["name"]
        if request.query.get("create") == "1":
            self.topics.setdefault(name, {"name": name})
        if name not in self.topics:
            problem = {"code": "unknown_topic", "status": 404}
            return web.json_response(problem, status=404, content_type="application/problem+json")
        return web.json_response(self.topics[name])

    async def _delete(self, request: web.Request) -> web.StreamResponse:
        del self.topics[request.match_info["name"]]
        return web.Response(status=204)

    async def _offsets(self, request: web.Request) -> web.StreamResponse:
        return web.json_response({"partitions": [], "asked": dict(request.query)})

    async def _status(self, request: web.Request) -> web.StreamResponse:
        return web.json_response({"service": "core", "log_id": "abc"})

    async def _revocations(self, request: web.Request) -> web.StreamResponse:
        after = int(request.query["after"])
        wait_s = int(request.query["wait_ms"]) / 1000
        if len(self.revocations) == after:
            try:
                async with asyncio.timeout(wait_s), self.changed:
                    await self.changed.wait_for(lambda: len(self.revocations) != after)
            except TimeoutError:
                pass
        listed = {"version": len(self.revocations), "revocations": self.revocations[after:]}
        return web.json_response(listed)

    async def _revoke(self, request: web.Request) -> web.StreamResponse:
        await self.revoke(**await request.json())
        return web.json_response({"version": len(self.revocations)}, status=201)

    async def revoke(self, **record: Any) -> None:
        self.revocations.append(record)
        async with self.changed:
            self.changed.notify_all()


class FakeTree:
    """A core's tree that can be made to lie: it signs whatever leaves it is told to have."""

    def __init__(self, origin: str = "sidegate/" + "ab" * 16) -> None:
        self.private = Ed25519PrivateKey.generate()
        self.origin = origin
        self.leaves: list[bytes] = []
        self.cosigned: list[str] = []
        self.hold_proofs = False

    @property
    def key(self) -> VerifierKey:
        public = self.private.public_key().public_bytes_raw()
        return VerifierKey(self.origin, SignatureType.ED25519, public)

    def grow(self, count: int, fill: int = 0) -> None:
        size = len(self.leaves)
        self.leaves += [
            bytes([fill]) * 28 + number.to_bytes(4) for number in range(size, size + count)
        ]

    @property
    def head(self) -> TreeHead:
        return TreeHead(self.origin, len(self.leaves), root_of(self.leaves))

    def note(self) -> str:
        """The checkpoint of now, with the cosignatures that were sent for it."""
        note = sign_tree_head(self.head, self.key, self.private.sign)
        for text in self.cosigned:
            kept = parse_note(text)
            if kept.text == note.text:
                note = replace(note, signatures=kept.signatures)
        return str(note)

    def routes(self) -> dict[str, Any]:
        async def checkpoint(request: web.Request) -> web.Response:
            return web.Response(text=self.note())

        async def proof(request: web.Request) -> web.Response:
            if self.hold_proofs:
                return web.Response(status=503)
            old, new = int(request.query["from"]), int(request.query["to"])
            hashes = consistency_proof(old, new, nodes_of(self.leaves))
            return web.json_response({"hashes": [each.hex() for each in hashes]})

        async def cosignatures(request: web.Request) -> web.Response:
            self.cosigned.append((await request.json())["checkpoint"])
            return web.Response(status=204)

        return {
            "/v1/checkpoint": checkpoint,
            "/v1/proof": proof,
            "/v1/cosignatures": cosignatures,
        }


@dataclass
class Mesh:
    """A gatekeeper that runs, the core behind it, and callers with certificates and tokens."""

    folder: Path
    root: Any
    mint: Any
    core: FakeCore
    gatekeeper: Gatekeeper
    service: Any
    issuer: Any
    sessions: list[aiohttp.ClientSession] = field(default_factory=list)

    @property
    def port(self) -> int:
        return self.gatekeeper.listener.port

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    def leaf(self, name: str = "app", **changed: Any) -> Any:
        return self.root.leaf(f"spiffe://example/{name}", **changed)

    def tls(self, leaf: Any = None) -> ssl.SSLContext:
        """A client's context, with the certificate `leaf` or none."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.load_verify_locations(self.folder / "ca.pem")
        if leaf is not None:
            path = self.folder / f"client-{leaf.serial:x}.pem"
            path.write_bytes(leaf.pem + leaf.key_pem)
            context.load_cert_chain(path)
        return context

    def token(self, leaf: Any, client: str = "billing", **changed: Any) -> str:
        changed = {"sub": client, "client_id": client, **changed}
        return str(self.mint.token(leaf.thumbprint, time.time(), **changed))

    def caller(
        self, client: str = "billing", name: str = "app", *, leaf: Any = None, **claims: Any
    ) -> "LiveCaller":
        leaf = leaf or self.leaf(name)
        connector = aiohttp.TCPConnector(ssl=self.tls(leaf), limit=0)
        session = aiohttp.ClientSession(self.url, connector=connector)
        self.sessions.append(session)
        return LiveCaller(self, session, leaf, self.token(leaf, client, **claims))

    def write_policy(self, more: str = "") -> None:
        text = POLICY.format(issuer=self.issuer.url, ca=self.issuer.ca, more=more)
        draft = self.folder / "policy.new"
        draft.write_text(text)
        draft.replace(self.folder / "policy.yaml")


@dataclass
class LiveCaller:
    """One client: a certificate, a token, a session."""

    mesh: Mesh
    session: aiohttp.ClientSession
    leaf: Any
    token: str

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"}

    async def append(self, *frames: bytes, **changed: Any) -> tuple[int, dict[str, Any]]:
        headers = {"Content-Type": FRAMES, **self.headers, **changed}
        async with self.session.post(
            "/v1/append", data=b"".join(frames), headers=headers
        ) as answer:
            return answer.status, await answer.json(content_type=None)

    async def ask(
        self, method: str, path: str, **options: Any
    ) -> tuple[int, Any, aiohttp.ClientResponse]:
        headers = {**self.headers, **options.pop("headers", {})}
        async with self.session.request(method, path, headers=headers, **options) as answer:
            body = await answer.read()
            text = answer.headers.get("Content-Type", "")
            return answer.status, json.loads(body) if "json" in text else body, answer

    @asynccontextmanager
    async def stream(self, **opening: Any) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
        async with self.session.ws_connect(
            "/v1/stream", headers=self.headers, max_msg_size=0
        ) as socket:
            if opening:
                said = {"type": "open", "partitions": None, "credit_bytes": 1 << 20, **opening}
                await socket.send_json(said)
            yield socket


async def until(holds: Callable[[], Any], timeout_s: float = 60.0) -> None:
    """Wait for something that another task brings about."""
    async with asyncio.timeout(timeout_s):
        while not holds():  # noqa: ASYNC110 - looked at from outside
            await asyncio.sleep(0.005)


@pytest.fixture(scope="session")
def live_root(new_root: Callable[..., Any]) -> Any:
    """The CA of the trust domain `example`, valid today."""
    return new_root("example root", now=time.time())


@pytest.fixture
def frame() -> Callable[..., bytes]:
    """Makes batches as a sidecar sends them."""
    return make_frame


@pytest.fixture
def tree() -> FakeTree:
    """A core's tree, for a mesh whose gatekeeper is a witness."""
    return FakeTree()


@pytest.fixture
def wait_until() -> Callable[..., Any]:
    return until


@pytest.fixture
async def new_mesh(
    tmp_path: Path, live_root: Any, new_mint: Callable[..., Any], issuer_server: Any
) -> AsyncIterator[Callable[..., Any]]:
    """Starts a gatekeeper before a fake core. Arguments change its limits and audit settings."""
    runners: list[web.AppRunner] = []
    running: list[tuple[Mesh, asyncio.Task[int]]] = []

    async def start(
        *,
        limits: dict[str, Any] | None = None,
        audit: dict[str, Any] | None = None,
        audit_failure: Any = "closed",
        policy: str = "",
        domains: dict[str, TrustDomainConfig] | None = None,
        tree: FakeTree | None = None,
        witness: dict[str, Any] | None = None,
        ready: bool = True,
    ) -> Mesh:
        folder = tmp_path
        mint = new_mint(issuer=issuer_server.url)
        issuer_server.serve_keys(mint.jwks)
        both = [CLIENT_AUTH, SERVER_AUTH]
        for name in ("core", "gatekeeper"):
            leaf = live_root.leaf(f"spiffe://example/{name}", eku=both)
            (folder / f"{name}.pem").write_bytes(leaf.pem)
            (folder / f"{name}.key").write_bytes(leaf.key_pem)
            (folder / f"{name}.key").chmod(0o600)
        (folder / "ca.pem").write_bytes(live_root.pem)
        key = Ed25519PrivateKey.generate()
        pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        (folder / "signing.pem").write_bytes(pem)
        (folder / "signing.pem").chmod(0o600)
        core = FakeCore(key.public_key())
        if tree is not None:
            (folder / "core.pub").write_text(f"{tree.key}\n")
            core.intercept |= tree.routes()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / "core.pem", folder / "core.key")
        context.load_verify_locations(folder / "ca.pem")
        context.verify_mode = ssl.CERT_REQUIRED
        runner = web.AppRunner(core.app(), access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        runners.append(runner)
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
        await site.start()
        core.port = runner.addresses[0][1]
        text = POLICY.format(issuer=issuer_server.url, ca=issuer_server.ca, more=policy)
        (folder / "policy.yaml").write_text(text)
        loopback = Address.parse("127.0.0.1:0")
        config = GatekeeperConfig(
            id=GATEKEEPER_ID,
            tls=TlsFilesConfig(
                folder / "gatekeeper.pem", folder / "gatekeeper.key", folder / "ca.pem"
            ),
            trust_domains=domains or {"example": TrustDomainConfig(folder / "ca.pem")},
            core=CoreConfig(
                url=f"https://127.0.0.1:{core.port}",
                spiffe_id=CORE_ID,
                public_key=None if tree is None else folder / "core.pub",
            ),
            signing_key=folder / "signing.pem",
            policy=folder / "policy.yaml",
            data=folder / "data",
            environment="development",
            listen=loopback,
            admin=loopback,
            health=loopback,
            audit_failure=audit_failure,
            limits=LimitsConfig(**{"header_timeout": 5.0, **(limits or {})}),
            audit=AuditConfig(**(audit or {})),
            witness=WitnessConfig(**{"interval": 0.05, **(witness or {})}),
        )
        gatekeeper = Gatekeeper(config)
        service = gatekeeper.service()
        mesh = Mesh(folder, live_root, mint, core, gatekeeper, service, issuer_server)
        task = asyncio.create_task(service.run())
        running.append((mesh, task))
        await until(lambda: task.done() or service.phase is Phase.RUNNING)
        assert not task.done(), "the gatekeeper did not start"
        if ready:
            await until(lambda: service.readiness().ready)
        return mesh

    yield start
    for mesh, task in running:
        for session in mesh.sessions:
            await session.close()
        mesh.service.ask_to_stop()
        await task
    for runner in runners:
        await runner.cleanup()


@pytest.fixture
async def mesh(new_mesh: Callable[..., Any]) -> Mesh:
    return await new_mesh()
