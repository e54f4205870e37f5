"""A mesh made of bytes: a CA, an issuer and a gatekeeper with a log, on free ports.

They speak TLS, HTTP and the batch format for real and share no code with the sidecar. The fake
log keeps the wire's rules for producers, so that a lost or doubled message shows; it can be told
to fail in every way that the wire allows.
"""

import asyncio
import contextlib
import datetime
import json
import ssl
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from hosting.units import Address
from log_format.checkpoint_note import TreeHead, cosign, sign_tree_head
from log_format.envelope import add_provenance, add_stamp, decode_envelope
from log_format.frame import body_padding, iter_frames
from log_format.leaf import leaf_hash
from log_format.note import SignatureType, VerifierKey
from log_format.parts import Provenance, Stamp
from log_format.tree import inclusion_proof, nodes_of, root_of

GATEKEEPER_ID = "spiffe://test/gatekeeper"
APP_ID = "spiffe://test/app"


class Authority:
    """A CA that writes certificates into a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test CA")])
        certificate = (
            self._builder(self._name, self._key)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(self._key, hashes.SHA256())
        )
        self.ca = folder / "ca.pem"
        self.ca.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))

    def _builder(self, name: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(hours=1))
            .not_valid_after(now + datetime.timedelta(days=1))
        )

    def issue(self, file: str, spiffe_id: str) -> tuple[Path, Path]:
        """A certificate and key for servers and clients alike."""
        import ipaddress

        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, file)])
        names = [
            x509.UniformResourceIdentifier(spiffe_id),
            x509.DNSName("localhost"),
            x509.IPAddress(ipaddress.ip_address("127.0.0.1")),
        ]
        usage = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        certificate = (
            self._builder(name, key)
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.ExtendedKeyUsage(usage), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        certificate_file, key_file = self.folder / f"{file}.pem", self.folder / f"{file}.key"
        certificate_file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        key_file.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        key_file.chmod(0o600)
        return certificate_file, key_file

    def server_context(self, pair: tuple[Path, Path]) -> ssl.SSLContext:
        """A context that wants a client certificate of this CA."""
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=self.ca)
        context.load_cert_chain(*pair)
        context.verify_mode = ssl.CERT_REQUIRED
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        return context


class Listening:
    """An aiohttp application on a free port that can be taken away and brought back."""

    def __init__(self, app: web.Application, context: ssl.SSLContext) -> None:
        self._app = app
        self._context = context
        self._runner: web.AppRunner | None = None
        self.port = 0

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    async def start(self) -> None:
        self._runner = web.AppRunner(self._app, access_log=None, shutdown_timeout=0.05)
        await self._runner.setup()
        site = web.TCPSite(
            self._runner, "127.0.0.1", self.port, ssl_context=self._context, reuse_address=True
        )
        await site.start()
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None


@dataclass
class FakeLog:
    """Topics, frames and producers, by the wire's rules."""

    frames: dict[tuple[str, int], list[tuple[int, bytes]]] = field(default_factory=dict)
    ends: dict[tuple[str, int], int] = field(default_factory=dict)
    producers: dict[tuple[int, str, int], tuple[int, int, list[tuple[int, int, int]]]] = field(
        default_factory=dict
    )
    topics: dict[str, dict[str, Any]] = field(default_factory=dict)
    leaves: int = 0
    appended: asyncio.Condition = field(default_factory=asyncio.Condition)

    def topic(self, name: str, **settings: Any) -> dict[str, Any]:
        default = {"name": name, "partitions": 1, "strategy": "key"}
        return self.topics.setdefault(name, {**default, **settings})

    def append(self, frame: Any) -> dict[str, Any]:
        producer = frame.envelope.producer
        place = {"topic": producer.topic, "partition": producer.partition}
        if self.topic(producer.topic)["partitions"] <= producer.partition:
            return {**place, "error": "unknown_partition", "detail": "no", "retryable": False}
        who = (producer.producer_id, producer.topic, producer.partition)
        epoch, expected, recent = self.producers.get(who, (producer.epoch, 0, []))
        if producer.epoch < epoch:
            return {**place, "error": "fenced", "detail": "old epoch", "current_epoch": epoch}
        if producer.epoch > epoch:
            epoch, expected, recent = producer.epoch, 0, []
        for first, count, offset in recent:
            if first == producer.first_sequence:
                assert count == producer.count
                return self._ok(producer, offset, duplicate=True)
        if (producer.first_sequence - expected) & 0x7FFFFFFF >= 1 << 30:
            # Behind what is next, and no longer remembered with its offset.
            return {
                **place,
                "error": "duplicate_too_old",
                "detail": f"{producer.first_sequence} was appended long ago",
                "expected_sequence": expected,
            }
        if producer.first_sequence != expected:
            return {
                **place,
                "error": "sequence_gap",
                "detail": f"{producer.first_sequence} where {expected} is next",
                "expected_sequence": expected,
            }
        frame.check_hash()
        assert frame.columns().count == producer.count
        key = (producer.topic, producer.partition)
        offset = self.ends.get(key, 0)
        sealed = add_provenance(
            frame.envelope.raw,
            Provenance("app", "iss", "client", bytes(32), "jti", bytes(16), bytes(32), "r", "g", 1),
        )
        stamped = add_stamp(sealed, Stamp(self.leaves, offset, 1, 0))
        whole = stamped + bytes(frame.body) + body_padding(frame.envelope.body_len)
        self.frames.setdefault(key, []).append((offset, whole))
        self.ends[key] = offset + producer.count
        self.leaves += 1
        after = (producer.first_sequence + producer.count) & 0x7FFFFFFF
        recent = [*recent, (producer.first_sequence, producer.count, offset)][-5:]
        self.producers[who] = (epoch, after, recent)
        return self._ok(producer, offset, duplicate=False)

    def _ok(self, producer: Any, offset: int, *, duplicate: bool) -> dict[str, Any]:
        return {
            "topic": producer.topic,
            "partition": producer.partition,
            "base_offset": offset,
            "count": producer.count,
            "leaf": self.leaves,
            "append_us": 1,
            "durability": "committed",
            "duplicate": duplicate,
        }

    def values(self, topic: str, partition: int = 0) -> list[bytes]:
        """Every payload of a partition, in order."""
        found = []
        for _offset, whole in self.frames.get((topic, partition), ()):
            (frame,) = iter_frames(whole)
            found += [value or b"" for value in frame.columns().value]
        return found


class FakeSubscription:
    """A durable subscription by the wire's rules; the member that came last has everything.

    `ordered` assigns each partition, `fcfs` leases each frame. `said` is what members say.
    """

    def __init__(self, log: FakeLog, definition: dict[str, Any], low: dict[int, int]) -> None:
        self.log = log
        self.definition = {
            "owner": "app",
            "mode": "ordered",
            "lease_ms": 30_000,
            "paused": False,
            "settings": {},
            **definition,
        }
        self.low = low
        self.acked: dict[int, set[int]] = {partition: set() for partition in low}
        self.attempts: dict[tuple[int, int], int] = {}
        self.history: dict[tuple[int, int], list[dict[str, Any]]] = {}
        self.generation = 0
        self.leases = 0
        self.members: list[tuple[web.WebSocketResponse, str]] = []
        self.openings: list[dict[str, Any]] = []
        self.said: list[dict[str, Any]] = []
        self.credit = 0
        self.silent_acks = False
        """Take acknowledgements without a word, as a link that breaks before the answer does."""
        self.quiet = False
        """Send no heartbeats."""
        self._sent: dict[int, set[int]] = {}
        self._leased: dict[int, tuple[int, set[int]]] = {}
        self._nacked: set[tuple[int, int]] = set()

    async def serve(self, socket: web.WebSocketResponse, opening: dict[str, Any]) -> None:
        self.openings.append(opening)
        self.credit = opening["credit_bytes"]
        self.members.append((socket, opening["member"]))
        await socket.send_json(
            {
                "type": "opened",
                "topic": self.definition["topic"],
                "subscription": self.definition,
            }
        )
        self._sent = {partition: set() for partition in self.low}
        if self.definition["mode"] == "ordered":
            await self.assign_all()
        feeding = asyncio.create_task(self._feed(socket))
        try:
            async for message in socket:
                await self._heard(socket, json.loads(message.data))
                async with self.log.appended:
                    self.log.appended.notify_all()
        finally:
            feeding.cancel()
            await asyncio.gather(feeding, return_exceptions=True)
            self.members = [each for each in self.members if each[0] is not socket]
            for partition, sent in self._sent.items():
                for offset in sent - self.acked[partition]:
                    if offset >= self.low[partition]:
                        self._tried(partition, offset)
            self._leased.clear()

    async def assign_all(self) -> None:
        """Give every partition to the last member, under a new generation."""
        self.generation += 1
        socket = self.members[-1][0]
        for partition, low in self.low.items():
            await socket.send_json(
                {
                    "type": "assign",
                    "partition": partition,
                    "generation": self.generation,
                    "low": low,
                    "acked": [[each, each] for each in sorted(self.acked[partition])],
                    "attempts": {
                        str(offset): tries
                        for (at, offset), tries in self.attempts.items()
                        if at == partition
                    },
                    "end_offset": self.log.ends.get((self.definition["topic"], partition), 0),
                    **self._history_of(partition, {at for _, at in self.history}),
                }
            )
        self._sent = {partition: set() for partition in self.low}

    async def say(self, **control: Any) -> None:
        """Send a control message to every member."""
        for socket, _ in list(self.members):
            await socket.send_json(control)

    def _history_of(self, partition: int, offsets: set[int]) -> dict[str, Any]:
        known = {
            str(each): self.history[partition, each]
            for each in offsets
            if (partition, each) in self.history
        }
        return {"history": known} if known else {}

    def _tried(self, partition: int, offset: int) -> None:
        self.attempts[partition, offset] = self.attempts.get((partition, offset), 0) + 1

    async def _heard(self, socket: web.WebSocketResponse, said: dict[str, Any]) -> None:
        self.said.append(said)
        match said["type"]:
            case "credit":
                self.credit += said["bytes"]
            case "ack":
                await self._ack(socket, said)
            case "nack":
                for offset in said["offsets"]:
                    self._sent[said["partition"]].discard(offset)
                    self._nacked.add((said["partition"], offset))
                    self._tried(said["partition"], offset)
            case "attempts":
                for offset, tries in said["attempts"].items():
                    self.attempts[said["partition"], int(offset)] = tries
                for offset, tries in said.get("history", {}).items():
                    self.history.setdefault((said["partition"], int(offset)), []).extend(tries)

    async def _ack(self, socket: web.WebSocketResponse, said: dict[str, Any]) -> None:
        partition = said["partition"]
        if self.silent_acks:
            return
        stale = (
            said["generation"] != self.generation
            if "generation" in said
            else said["lease"] not in self._leased
        )
        if stale:
            kept = {name: said[name] for name in ("generation", "lease") if name in said}
            await socket.send_json({"type": "fenced", "partition": partition, **kept})
            return
        for first, last in said["ranges"]:
            for each in range(first, last + 1):
                known = self._sent[partition] | self.acked[partition]
                if each >= self.low[partition] and each not in known:
                    detail = f"{each} was not given"
                    await socket.send_json({"type": "end", "code": "bad_message", "detail": detail})
                    await socket.close()
                    return
            self.acked[partition] |= set(range(first, last + 1))
        while self.low[partition] in self.acked[partition]:
            self.acked[partition].discard(self.low[partition])
            self.low[partition] += 1
        await socket.send_json(
            {
                "type": "acked",
                "partition": partition,
                "low": self.low[partition],
                "ranges": said["ranges"],
            }
        )

    async def _feed(self, socket: web.WebSocketResponse) -> None:
        topic = self.definition["topic"]
        while True:
            for partition in self.low:
                for base, whole in list(self.log.frames.get((topic, partition), ())):
                    (frame,) = iter_frames(whole)
                    due = set(range(base, base + frame.envelope.producer.count))
                    due = {each for each in due if each >= self.low[partition]}
                    due -= self.acked[partition] | self._sent[partition]
                    if due and self.credit > 0:
                        self._sent[partition] |= due
                        self.credit -= len(whole)
                        await self._give(socket, partition, base, frame, due, whole)
            async with self.log.appended:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(0.2):
                        await self.log.appended.wait()
                        continue
            if not self.quiet:
                await socket.send_json({"type": "heartbeat", "end_offsets": {}})

    async def _give(
        self,
        socket: web.WebSocketResponse,
        partition: int,
        base: int,
        frame: Any,
        due: set[int],
        whole: bytes,
    ) -> None:
        if self.definition["mode"] == "fcfs":
            self.leases += 1
            self._leased[self.leases] = (partition, due)
            count = frame.envelope.producer.count
            taken = set(range(base, base + count)) - due
            await socket.send_json(
                {
                    "type": "lease",
                    "partition": partition,
                    "lease": self.leases,
                    "first_offset": base,
                    "count": count,
                    "acked": [[each, each] for each in sorted(taken)],
                    "attempts": {
                        str(each): self.attempts[partition, each]
                        for each in due
                        if (partition, each) in self.attempts
                    },
                    **self._history_of(partition, due),
                }
            )
        elif again := {each for each in due if (partition, each) in self._nacked}:
            self._nacked -= {(partition, each) for each in again}
            await socket.send_json(
                {
                    "type": "redeliver",
                    "partition": partition,
                    "generation": self.generation,
                    "first_offset": base,
                    "count": frame.envelope.producer.count,
                    "offsets": sorted(again),
                    "attempts": {str(each): self.attempts[partition, each] for each in again},
                    **self._history_of(partition, again),
                }
            )
        await socket.send_bytes(whole)


class FakeDefinitions:
    """The routes below /v1/subscriptions and /v1/channels."""

    def __init__(self, gatekeeper: "FakeGatekeeper") -> None:
        self._gatekeeper = gatekeeper
        self.version = 1
        self.channels: dict[str, dict[str, Any]] = {}
        self._changed = asyncio.Event()

    def add_routes(self, app: web.Application) -> None:
        app.router.add_route("*", "/v1/subscriptions", self._all)
        app.router.add_route("*", "/v1/subscriptions/{name}", self._one)
        app.router.add_post("/v1/subscriptions/{name}/{verb}", self._act)
        app.router.add_route("*", "/v1/channels", self._all_channels)
        app.router.add_route("*", "/v1/channels/{id}", self._channel)

    def touch(self, definition: dict[str, Any] | None = None) -> None:
        self.version += 1
        if definition is not None:
            definition["version"] = self.version
        self._changed.set()
        self._changed = asyncio.Event()

    async def _all(self, request: web.Request) -> web.Response:
        known = self._gatekeeper.subscriptions
        if request.method == "POST":
            return await self._create(await request.json())
        after = int(request.query.get("after", -1))
        if after >= self.version:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(int(request.query["wait_ms"]) / 1000):
                    await self._changed.wait()
        rows = [known[name].definition for name in sorted(known)]
        return web.json_response({"version": self.version, "subscriptions": rows})

    async def _create(self, wanted: dict[str, Any]) -> web.Response:
        gatekeeper, name = self._gatekeeper, wanted["name"]
        if wanted["topic"].startswith("forbidden."):
            return problem(403, "denied", "no", decision_id="d1", reason="rule")
        if name in gatekeeper.subscriptions:
            there = gatekeeper.subscriptions[name].definition
            differs = [each for each in wanted if there.get(each) != wanted[each]]
            if differs:
                return problem(409, "subscription_exists", f"{name} is another")
            return web.json_response(there)
        topic = gatekeeper.log.topic(wanted["topic"])
        low = {
            partition: gatekeeper._begin(wanted.get("from", "latest"), topic["name"], partition)
            for partition in range(topic["partitions"])
        }
        made = FakeSubscription(gatekeeper.log, {"created_us": self.version, **wanted}, low)
        gatekeeper.subscriptions[name] = made
        self.touch(made.definition)
        return web.json_response(made.definition, status=201)

    def _state(self, found: FakeSubscription) -> dict[str, Any]:
        topic = found.definition["topic"]
        ends = {each: found.log.ends.get((topic, each), 0) for each in found.low}
        return {
            **found.definition,
            "state": "active" if found.members else "idle",
            "members": [],
            "redelivered": 0,
            "expired": 0,
            "cursors": [
                {
                    "partition": each,
                    "low": low,
                    "acked": [],
                    "end_offset": ends[each],
                    "lag": ends[each] - low - len(found.acked[each]),
                    "in_flight": 0,
                }
                for each, low in found.low.items()
            ],
        }

    async def _one(self, request: web.Request) -> web.Response:
        known, name = self._gatekeeper.subscriptions, request.match_info["name"]
        if name not in known:
            return problem(404, "unknown_subscription", f"no {name}")
        found = known[name]
        if request.method == "DELETE":
            del known[name]
            self.touch()
            await found.say(type="end", code="subscription_deleted", detail="it was deleted")
            return web.Response(status=204)
        if request.method == "PATCH":
            if request.headers.get("If-Match") != f'"{found.definition["version"]}"':
                return problem(412, "subscription_changed", "it was changed meanwhile")
            found.definition |= await request.json()
            self.touch(found.definition)
        return web.json_response(self._state(found))

    async def _act(self, request: web.Request) -> web.Response:
        known, name = self._gatekeeper.subscriptions, request.match_info["name"]
        if name not in known:
            return problem(404, "unknown_subscription", f"no {name}")
        found, verb, said = known[name], request.match_info["verb"], await request.json()
        if verb in ("pause", "resume"):
            found.definition["paused"] = verb == "pause"
            self.touch(found.definition)
            await found.say(type="paused" if verb == "pause" else "resumed")
        elif verb == "seek":
            for partition in found.low:
                at = self._gatekeeper._begin(said["to"], found.definition["topic"], partition)
                found.low[partition], found.acked[partition] = at, set()
            if found.members:
                await found.assign_all()
        found.said.append({"type": verb, **said})
        return web.json_response(self._state(found))

    async def _all_channels(self, request: web.Request) -> web.Response:
        if request.method == "GET":
            rows = [self.channels[each] for each in sorted(self.channels)]
            return web.json_response({"version": self.version, "channels": rows})
        wanted = await request.json()
        return self._keep(wanted["id"], wanted, replace=False)

    async def _channel(self, request: web.Request) -> web.Response:
        ident = request.match_info["id"]
        if request.method == "PUT":
            return self._keep(ident, await request.json(), replace=True)
        if ident not in self.channels:
            return problem(404, "unknown_channel", f"no {ident}")
        if request.method == "DELETE":
            del self.channels[ident]
            return web.Response(status=204)
        return web.json_response(self.channels[ident])

    def _keep(self, ident: str, wanted: dict[str, Any], *, replace: bool) -> web.Response:
        there = self.channels.get(ident)
        made = {"id": ident, "name": ident, "path": "/", "tls": False, **wanted, "version": 1}
        if there is not None and not replace:
            if there == made:
                return web.json_response(there)
            return problem(409, "channel_exists", "it is another")
        self.channels[ident] = made
        return web.json_response(made, status=201 if there is None else 200)


class FakeProofs:
    """The tree over a FakeLog's batches. `signed` leaves are covered by a checkpoint, `cosigned`
    ones by a witness too; a wait for more of them ends when `grow` says that there are."""

    def __init__(self, log: FakeLog) -> None:
        self.log = log
        self.signed = 0
        self.cosigned = 0
        self.core = Ed25519PrivateKey.generate()
        self.gate = Ed25519PrivateKey.generate()
        self.core_key = VerifierKey(
            "sidegate/aa", SignatureType.ED25519, self.core.public_key().public_bytes_raw()
        )
        self.gate_key = VerifierKey(
            "g", SignatureType.COSIGNATURE_V1, self.gate.public_key().public_bytes_raw()
        )
        self.grown = asyncio.Condition()
        self.answer: web.Response | None = None

    def add_routes(self, app: web.Application) -> None:
        app.router.add_get("/v1/proof", self._proof)
        app.router.add_get("/v1/checkpoint", self._checkpoint)

    async def grow(self, signed: int, cosigned: int = 0) -> None:
        self.signed, self.cosigned = signed, cosigned
        async with self.grown:
            self.grown.notify_all()

    def envelopes(self) -> list[bytes]:
        found = {}
        for frames in self.log.frames.values():
            for _offset, whole in frames:
                envelope = decode_envelope(whole)
                assert envelope.stamp is not None
                found[envelope.stamp.leaf] = envelope.raw
        return [found[leaf] for leaf in sorted(found)]

    def note(self, size: int) -> Any:
        leaves = [leaf_hash(each) for each in self.envelopes()[:size]]
        note = sign_tree_head(
            TreeHead("sidegate/aa", size, root_of(leaves)), self.core_key, self.core.sign
        )
        return cosign(note, self.gate_key, self.gate.sign, 1) if size <= self.cosigned else note

    async def _proof(self, request: web.Request) -> web.Response:
        if self.answer is not None:
            return self.answer
        query, envelopes = request.query, self.envelopes()
        place = (query["topic"], int(query["partition"]))
        for leaf, raw in enumerate(envelopes):
            envelope = decode_envelope(raw)
            assert envelope.stamp is not None
            first = envelope.stamp.base_offset
            own = (envelope.producer.topic, envelope.producer.partition)
            if own != place or not 0 <= int(query["offset"]) - first < envelope.producer.count:
                continue
            if leaf >= self.signed:
                extra: Any = {"leaf": leaf, "retryable": True}
                return problem(404, "unknown_leaf", "not covered", **extra)
            size = self.cosigned if leaf < self.cosigned else self.signed
            leaves = [leaf_hash(each) for each in envelopes[:size]]
            path = inclusion_proof(leaf, size, nodes_of(leaves))
            return web.json_response(
                {
                    "leaf": leaf,
                    "size": size,
                    "envelope": raw.hex(),
                    "hashes": [each.hex() for each in path],
                    "checkpoint": str(self.note(size)),
                }
            )
        return problem(404, "unknown_leaf", "no such batch")

    async def _checkpoint(self, request: web.Request) -> web.Response:
        wanted = int(request.query["wait_leaf"])
        try:
            async with asyncio.timeout(int(request.query["wait_ms"]) / 1000), self.grown:
                await self.grown.wait_for(lambda: self.cosigned > wanted)
        except TimeoutError:
            pass
        return web.Response(text=str(self.note(self.signed)) if self.signed else "")


class FakeGatekeeper:
    """The `/v1` wire in front of a FakeLog.

    `failures` are used up one for each append: "drop" appends and closes without an answer,
    "lose" closes before it appends, a number answers that status, a code refuses every frame.
    """

    def __init__(self, log: FakeLog, authority: Authority, spiffe_id: str = GATEKEEPER_ID) -> None:
        self.log = log
        self.failures: list[str | int] = []
        self.read_failures: list[web.Response] = []
        """Answers to the next reads, in place of frames."""
        self.core_down = False
        self.hang_topics: asyncio.Event | None = None
        self.hang: asyncio.Event | None = None
        self.requests: list[tuple[str, str]] = []
        self.appends: list[int] = []
        self.tokens: list[str] = []
        self.refused_tokens: set[str] = set()
        self.credits: list[int] = []
        self.unreadable: set[str] = set()
        self.subscriptions: dict[str, FakeSubscription] = {}
        self.definitions = FakeDefinitions(self)
        self._sockets: set[web.WebSocketResponse] = set()
        app = web.Application(client_max_size=64 * 1024 * 1024, middlewares=[self._admit])
        app.router.add_post("/v1/append", self._append)
        app.router.add_get("/v1/read", self._read)
        app.router.add_get("/v1/stream", self._stream)
        app.router.add_get("/v1/status", self._status)
        app.router.add_get("/v1/whoami", self._whoami)
        app.router.add_route("*", "/v1/topics", self._topics)
        app.router.add_route("*", "/v1/topics/{name}", self._topic)
        app.router.add_get("/v1/topics/{name}/offsets", self._offsets)
        app.router.add_get("/v1/access", self._access)
        self.definitions.add_routes(app)
        self.proofs = FakeProofs(log)
        self.proofs.add_routes(app)
        name = spiffe_id.rpartition("/")[2]
        context = authority.server_context(authority.issue(f"server-{name}", spiffe_id))
        self.listening = Listening(app, context)

    @web.middleware
    async def _admit(self, request: web.Request, handler: Any) -> Any:
        self.requests.append((request.method, request.path))
        token = request.headers.get("Authorization", "").removeprefix("Bearer ")
        self.tokens.append(token)
        if not token or token in self.refused_tokens:
            return problem(401, "unauthenticated", "the token is not taken")
        if self.core_down:
            return problem(503, "unavailable", "the core can't be reached")
        return await handler(request)

    async def _status(self, _: web.Request) -> web.Response:
        return web.json_response({"service": "core"})

    async def _whoami(self, _: web.Request) -> web.Response:
        return web.json_response({"principal": "app", "spiffe_id": APP_ID})

    async def _append(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        frames = list(iter_frames(body))
        self.appends.append(len(frames))
        if self.hang is not None:
            await self.hang.wait()
        failure = self.failures.pop(0) if self.failures else None
        if failure == "lose":
            return _cut(request)
        if isinstance(failure, int):
            return problem(failure, "failed", "as the test asked")
        results = []
        for frame in frames:
            topic = frame.envelope.producer.topic
            refused = failure if isinstance(failure, str) and failure != "drop" else None
            if topic.startswith("forbidden."):
                refused = "denied"
            if refused is not None:
                results.append(refusal(frame, refused))
            else:
                results.append(self.log.append(frame))
        async with self.log.appended:
            self.log.appended.notify_all()
        if failure == "drop":
            return _cut(request)
        return web.json_response({"results": results})

    async def _read(self, request: web.Request) -> web.Response:
        query = request.query
        key = (query["topic"], int(query["partition"]))
        if self.read_failures:
            return self.read_failures.pop(0)
        if key[0] not in self.log.topics:
            return problem(404, "unknown_topic", f"no topic {key[0]}")
        offset, size, chunks = int(query["offset"]), 0, []
        for base, whole in self.log.frames.get(key, ()):
            (frame,) = iter_frames(whole)
            if base + frame.envelope.producer.count > offset and size < int(query["max_bytes"]):
                chunks.append(whole)
                size += len(whole)
        return web.Response(body=b"".join(chunks), content_type="application/vnd.sidegate.frames")

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        self._sockets.add(socket)
        try:
            opening = json.loads((await socket.receive()).data)
            if "subscription" in opening:
                await self._member(socket, opening)
                return socket
            topic = opening["topic"]
            if topic.startswith("forbidden."):
                await socket.send_json(
                    {"type": "end", "code": "denied", "detail": "no", "decision_id": "d1"}
                )
                return socket
            count = self.log.topic(topic)["partitions"]
            partitions = opening["partitions"] or list(range(count))
            at = {each: self._begin(opening["from"], topic, each) for each in partitions}
            await socket.send_json(
                {
                    "type": "opened",
                    "topic": topic,
                    "partitions": [
                        {
                            "partition": each,
                            "offset": at[each],
                            "end_offset": max(at[each], self.log.ends.get((topic, each), 0)),
                        }
                        for each in partitions
                    ],
                }
            )
            await self._feed(socket, topic, at, opening["credit_bytes"])
        finally:
            self._sockets.discard(socket)
        return socket

    async def _member(self, socket: web.WebSocketResponse, opening: dict[str, Any]) -> None:
        name, create = opening["subscription"], opening["create"]
        if name not in self.subscriptions:
            if create is None:
                await socket.send_json(
                    {"type": "end", "code": "unknown_subscription", "detail": f"no {name}"}
                )
                return
            topic = self.log.topic(create["topic"])
            low = {
                partition: self._begin(create.get("from", "latest"), topic["name"], partition)
                for partition in range(topic["partitions"])
            }
            self.subscriptions[name] = FakeSubscription(self.log, {"name": name, **create}, low)
        await self.subscriptions[name].serve(socket, opening)

    def _begin(self, origin: Any, topic: str, partition: int) -> int:
        if origin == "earliest":
            return 0
        if origin == "latest":
            return self.log.ends.get((topic, partition), 0)
        if "offsets" in origin:
            return int(origin["offsets"].get(str(partition), 0))
        return 0

    async def _feed(
        self, socket: web.WebSocketResponse, topic: str, at: dict[int, int], credit: int
    ) -> None:
        left = [credit]

        async def listen() -> None:
            async for message in socket:
                said = json.loads(message.data)
                if said["type"] == "credit":
                    left[0] += said["bytes"]
                    self.credits.append(said["bytes"])
                elif said["type"] == "token":
                    self.tokens.append(said["token"])
                async with self.log.appended:
                    self.log.appended.notify_all()

        listener = asyncio.create_task(listen())
        try:
            while not listener.done():
                sent = False
                for partition in list(at):
                    for base, whole in self.log.frames.get((topic, partition), ()):
                        (frame,) = iter_frames(whole)
                        end = base + frame.envelope.producer.count
                        if end > at[partition] and left[0] > 0:
                            await socket.send_bytes(whole)
                            at[partition] = end
                            left[0] -= len(whole)
                            sent = True
                if not sent:
                    async with self.log.appended:
                        with contextlib.suppress(TimeoutError):
                            async with asyncio.timeout(0.2):
                                await self.log.appended.wait()
                                continue
                    await socket.send_json({"type": "heartbeat", "end_offsets": {}})
        except ConnectionError:
            return
        finally:
            listener.cancel()
            await asyncio.gather(listener, return_exceptions=True)

    async def say(self, **control: Any) -> None:
        """Send a control message on every open stream; some may be going."""
        for socket in list(self._sockets):
            with contextlib.suppress(ConnectionError):
                await socket.send_json(control)

    async def cut_streams(self) -> None:
        """Break every open stream, without a word."""
        for socket in list(self._sockets):
            transport = socket._req.transport if socket._req is not None else None
            if transport is not None:
                transport.abort()

    async def _topics(self, request: web.Request) -> web.Response:
        if request.method == "GET":
            return web.json_response({"topics": list(self.log.topics.values())})
        wanted = await request.json()
        known = wanted["name"] in self.log.topics
        if known and self.log.topics[wanted["name"]] != wanted:
            return problem(409, "topic_exists", "it exists with other settings")
        self.log.topics[wanted["name"]] = wanted
        return web.json_response(wanted, status=200 if known else 201)

    async def _access(self, request: web.Request) -> web.Response:
        allowed = not request.query["topic"].startswith("forbidden.")
        reason = None if allowed else "closed"
        return web.json_response({"allowed": allowed, "reason": reason, "detail": "as told"})

    async def _offsets(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        if name not in self.log.topics:
            return problem(404, "unknown_topic", f"no topic {name}")
        if name in self.unreadable:
            return problem(403, "denied", "you may not read it")
        rows = [
            {
                "partition": each,
                "start_offset": 0,
                "end_offset": self.log.ends.get((name, each), 0),
                "offset": 0,
            }
            for each in range(self.log.topics[name]["partitions"])
        ]
        return web.json_response({"partitions": rows})

    async def _topic(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        if self.hang_topics is not None:
            await self.hang_topics.wait()
        if name.startswith("forbidden."):
            return problem(403, "denied", "no", decision_id="d1", reason="rule")
        if "create" in request.query:
            self.log.topic(name)
        if name not in self.log.topics:
            return problem(404, "unknown_topic", f"no topic {name}")
        if request.method == "DELETE":
            del self.log.topics[name]
            return web.Response(status=204)
        if request.method == "PATCH":
            self.log.topics[name] |= await request.json()
        return web.json_response(self.log.topics[name])


class FakeIssuer:
    """Discovery and a token endpoint that wants the app's certificate."""

    def __init__(self, authority: Authority) -> None:
        self.issued = 0
        self.life_s = 3600
        self.forms: list[dict[str, str]] = []
        self.down = False
        app = web.Application()
        app.router.add_get("/.well-known/oauth-authorization-server", self._metadata)
        app.router.add_post("/token", self._token)
        context = authority.server_context(authority.issue("issuer", "spiffe://test/issuer"))
        self.listening = Listening(app, context)

    async def _metadata(self, _: web.Request) -> web.Response:
        url = self.listening.url
        return web.json_response({"issuer": url, "token_endpoint": f"{url}/token"})

    async def _token(self, request: web.Request) -> web.Response:
        self.forms.append(dict(await request.post()))  # type: ignore[arg-type]
        if self.down:
            return web.json_response({"error": "temporarily_unavailable"}, status=503)
        self.issued += 1
        return web.json_response(
            {
                "access_token": f"token-{self.issued}",
                "token_type": "Bearer",
                "expires_in": self.life_s,
            }
        )


def problem(status: int, code: str, detail: str, **members: str) -> web.Response:
    body = {"type": f"urn:sidegate:problem:{code}", "code": code, "detail": detail, **members}
    return web.json_response(body, status=status, content_type="application/problem+json")


def refusal(frame: Any, code: str) -> dict[str, Any]:
    producer = frame.envelope.producer
    return {
        "topic": producer.topic,
        "partition": producer.partition,
        "error": code,
        "detail": f"the test says {code}",
        "retryable": code in ("over_quota", "unavailable", "overloaded", "disk_full"),
        "retry_after_ms": 50,
        "decision_id": "d-17",
        "reason": "rule D1",
    }


def _cut(request: web.Request) -> web.StreamResponse:
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


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


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("ca"))


@pytest.fixture
def make_gatekeeper() -> type[FakeGatekeeper]:
    """For tests that want a second gatekeeper, or one that is none."""
    return FakeGatekeeper


@pytest.fixture
async def mesh(authority: Authority, tmp_path: Path) -> AsyncIterator[Mesh]:
    """An issuer and a gatekeeper that run; sidecars come from `mesh.sidecar()`."""
    folder_authority = authority
    issuer, log = FakeIssuer(folder_authority), FakeLog()
    gatekeeper = FakeGatekeeper(log, folder_authority)
    mesh = Mesh(folder_authority, issuer, log, gatekeeper, folder_authority.folder)
    mesh.folder = tmp_path
    authority.issue("app", APP_ID)
    for suffix in ("pem", "key"):
        target = tmp_path / f"app.{suffix}"
        target.write_bytes((authority.folder / f"app.{suffix}").read_bytes())
        target.chmod(0o600)
    await issuer.listening.start()
    await gatekeeper.listening.start()
    try:
        yield mesh
    finally:
        for running in mesh.sidecars:
            await running.stop()
        await gatekeeper.listening.stop()
        await issuer.listening.stop()


class HookApp:
    """An app that takes webhooks and behaves as it is told.

    `answers` are used up one for each request: a number is a status, a response is sent as it is,
    a function of the request does what it likes. Without any it answers 200.
    """

    def __init__(self) -> None:
        self.answers: list[Any] = []
        self.seen: list[tuple[web.Request, bytes]] = []
        self.under_way = 0
        self.most_under_way = 0
        self._runner: web.AppRunner | None = None
        self.port = 0

    async def start(self) -> None:
        app = web.Application(client_max_size=64 * 1024 * 1024)
        app.router.add_route("*", "/{tail:.*}", self._answer)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.05)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self.port, reuse_address=True)
        await site.start()
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"

    @property
    def messages(self) -> list[Any]:
        """The messages of the envelopes that came, in order."""
        return [json.loads(body)["message"] for _, body in self.seen]

    async def until(self, count: int) -> None:
        """Wait until so many requests have come; the test's timeout is the limit."""
        while len(self.seen) < count:  # noqa: ASYNC110 - the app's own state
            await asyncio.sleep(0.005)

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        self.seen.append((request, body))
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        try:
            answer = self.answers.pop(0) if self.answers else 200
            if callable(answer):
                answer = await answer(request)
            return web.Response(status=answer) if isinstance(answer, int) else answer
        finally:
            self.under_way -= 1


@pytest.fixture
async def hook() -> AsyncIterator[HookApp]:
    """A webhook that runs."""
    app = HookApp()
    await app.start()
    yield app
    await app.stop()


@pytest.fixture
async def open_gateway(mesh: Mesh) -> AsyncIterator[Callable[..., Any]]:
    """Gateways with credentials of their own, for the parts that stand between app and mesh."""
    from hosting.tls import ReloadingContexts, TlsFiles
    from sidecar.uplink.backoff import Backoff
    from sidecar.uplink.credentials import CredentialSource
    from sidecar.uplink.gateway import Gateway
    from sidecar.uplink.oauth import Client

    async with contextlib.AsyncExitStack() as stack:

        async def open_(*urls: str, connected: bool = True, **settings: Any) -> Any:
            config = mesh.config()
            files = TlsFiles(config.tls.certificate, config.tls.key, config.tls.ca)
            contexts = ReloadingContexts(files, environment="development")
            client = Client(config.oauth.issuer, "app", "tls_client_auth", "urn:x", None, None)
            source = CredentialSource(
                files,
                contexts,
                settings.pop("client", client),
                issuer_ca=mesh.authority.ca,
                backoff=Backoff(first_s=0.01, max_s=0.01),
                **settings,
            )
            gateway = Gateway(urls or config.gatekeepers, GATEKEEPER_ID, source)
            await source.start()
            stack.push_async_callback(source.stop)
            stack.push_async_callback(gateway.stop)
            if connected:
                await source.wait()
            return Opened(gateway, source, contexts)

        yield open_


@dataclass(frozen=True)
class Opened:
    """A gateway, where its tokens come from, and where its certificate does."""

    gateway: Any
    credentials: Any
    contexts: Any
