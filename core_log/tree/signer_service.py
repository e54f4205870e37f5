"""The signer as a service: a key in a process of its own, which signs nothing but extensions.

    run_service(lambda: make_service(config))

`GET /key` tells the public key, `POST /sign` asks for a signature with a consistency proof. Runs
as another user than the core, so that who takes over the core can't sign a rewritten log.
"""

import asyncio
import logging
import os
from typing import Final

from aiohttp import web
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from core_log.api.admission import Admission, NotAdmitted, admission_middleware
from core_log.api.request_body import BadJson, BodyTooLarge, read_json
from core_log.api.wire import json_response
from core_log.tree.signer_config import SignerConfig
from core_log.tree.signer_memory import MemoryUnusable, SignerMemory, decide
from hosting.lifecycle import Service, StartError
from hosting.problems import Problem, ProblemTable, error_middleware
from hosting.signing_key import SigningKeyError, load_signing_key
from hosting.web import DRAINING, HttpLimits, HttpSite
from log_format.checkpoint_note import TreeHead, parse_tree_head
from log_format.errors import FormatError
from log_format.tree import PROOF_HASHES_MAX

CONNECTIONS_MAX: Final = 16
"""One core asks, one request at a time; the rest is room for restarts."""
_EVERY_USER: Final = 0o666
"""The kernel's word about the caller decides, not the file mode."""

log = logging.getLogger("sidegate.signer")


class BadRequest(Exception):
    """A body that asks for nothing that can be signed."""


class NotSigned(Exception):
    """The tree is not signed; `members` tell what was signed last."""

    def __init__(self, why: str, members: dict[str, object]) -> None:
        super().__init__(why)
        self.members = members


TABLE: Final = ProblemTable(
    {
        NotAdmitted: Problem(403, "not_admitted", "Only the core may ask for signatures"),
        BadJson: Problem(400, "bad_json", "The body is not the JSON that is expected"),
        BodyTooLarge: Problem(413, "too_large", "The body is too large"),
        BadRequest: Problem(400, "bad_request", "Nothing that can be signed"),
        NotSigned: Problem(409, "not_signed", "The tree is not signed"),
    }
)


class SignerApi:
    """The component that holds key and memory, and serves them."""

    name = "signer"

    def __init__(self, config: SignerConfig) -> None:
        self._config = config
        self._memory = SignerMemory(config.data)
        self._private: Ed25519PrivateKey | None = None
        self._signing = asyncio.Lock()
        self._site: HttpSite | None = None

    async def start(self) -> None:
        """Read key and memory, then listen."""
        try:
            self._private = load_signing_key(self._config.signing_key)
            self._memory.load()
        except (SigningKeyError, MemoryUnusable, OSError) as error:
            raise StartError(str(error)) from error
        admission = Admission(uids=frozenset(self._config.admit_uids))
        app = web.Application(
            middlewares=[error_middleware(TABLE), admission_middleware(admission)]
        )
        app[DRAINING] = asyncio.Event()
        app.router.add_get("/key", self.show_key)
        app.router.add_post("/sign", self.sign)
        own = frozenset({os.getuid()})
        self._site = HttpSite(
            self.name,
            app,
            self._config.listen,
            limits=HttpLimits(connections_max=CONNECTIONS_MAX),
            socket_mode=0o600 if admission.uids <= own else _EVERY_USER,
        )
        await self._site.start()
        last = self._memory.last
        fields = {"origin": last.origin, "leaves": last.size} if last else {"leaves": None}
        log.info("signer ready", extra={"fields": fields})

    async def drain(self) -> None:
        """Finish what was asked."""
        if self._site is not None:
            await self._site.drain()

    async def stop(self) -> None:
        """Close every connection."""
        if self._site is not None:
            await self._site.stop()

    async def show_key(self, _request: web.Request) -> web.Response:
        """The public key, and what was signed last."""
        public = self._key().public_key().public_bytes_raw()
        return json_response({"public": public.hex(), **self._last()})

    async def sign(self, request: web.Request) -> web.Response:
        """A signature over a checkpoint that extends the last one."""
        head, before, proof = _parse(await read_json(request))
        async with self._signing:
            refusal = decide(self._memory.last, head, before, proof)
            if refusal is not None:
                fields = {"code": refusal.code, "why": refusal.why, "leaves": head.size}
                if refusal.code != "other_start":
                    log.error(
                        "NOT SIGNED: the core asked for another tree", extra={"fields": fields}
                    )
                raise NotSigned(refusal.why, {"reason": refusal.code, **self._last()})
            await asyncio.to_thread(self._memory.keep, head)
        signature = self._key().sign(head.text.encode())
        return json_response({"signature": signature.hex()})

    def _last(self) -> dict[str, object]:
        last = self._memory.last
        return {"checkpoint": None if last is None else last.text}

    def _key(self) -> Ed25519PrivateKey:
        if self._private is None:
            raise RuntimeError("the signer has not started")
        return self._private


def _parse(value: object) -> tuple[TreeHead, int, list[bytes]]:
    if not isinstance(value, dict) or set(value) != {"checkpoint", "from", "proof"}:
        raise BadRequest("the body must have the members checkpoint, from and proof")
    text, before, proof = value["checkpoint"], value["from"], value["proof"]
    if not isinstance(text, str) or type(before) is not int or not isinstance(proof, list):
        raise BadRequest("checkpoint must be a text, from an integer and proof a list")
    if len(proof) > PROOF_HASHES_MAX:
        raise BadRequest(f"proof: no tree needs more than {PROOF_HASHES_MAX} hashes")
    try:
        hashes = [bytes.fromhex(each) for each in proof]
        return parse_tree_head(text), before, hashes
    except (FormatError, ValueError, TypeError) as error:
        raise BadRequest(f"checkpoint or proof: {error}") from error


def make_service(config: SignerConfig) -> Service:
    """The signer's service. Call it inside the event loop that will run it."""
    return Service("signer", components=[SignerApi(config)])
