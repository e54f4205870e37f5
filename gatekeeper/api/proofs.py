"""GET /v1/checkpoint and GET /v1/proof: what anybody needs to check the log for themselves.

A checkpoint and the proof that one tree extends another tell nothing about any topic, so every
caller gets them. The proof of a message shows its batch's envelope, and is asked for by the
message's place: the topic is decided on before the core is asked, and held against the answer.
"""

from aiohttp import web

from gatekeeper.api.call import Call, core_object, passed_on
from gatekeeper.api.gate import Gate
from gatekeeper.api.parameters import required, topic_name, whole_number
from gatekeeper.core.upstream import RETRY_AFTER_S, Answer, CoreClient
from gatekeeper.errors import BadRequest, CoreUnavailable
from log_format.envelope import decode_envelope
from log_format.errors import FormatError

ANSWER_S_MAX = 5.0
"""Beyond what the caller waits for: a proof is a millisecond of work, behind at most a few hundred
others."""
_BETWEEN = frozenset({"from", "to"})


class Proofs:
    """The handlers of checkpoints and proofs. Lives in one event loop."""

    def __init__(self, *, gate: Gate, core: CoreClient, wait_s_max: float) -> None:
        self._gate = gate
        self._core = core
        self._wait_ms_max = round(wait_s_max * 1000)

    async def checkpoint(self, call: Call) -> web.StreamResponse:
        """The newest checkpoint, as the core signed and witnesses cosigned it; after a while, if
        the caller waits for one that covers a leaf or is cosigned."""
        query = {
            name: whole_number(call.query[name], name)
            for name in ("wait_leaf", "cosigned", "wait_ms")
            if name in call.query
        }
        wait_ms = min(query.get("wait_ms", 0), self._wait_ms_max)
        if "wait_ms" in query:
            query["wait_ms"] = wait_ms
        answer = await self._core.ask(
            "GET",
            "/v1/checkpoint",
            call.behalf(),
            query={name: str(value) for name, value in query.items()},
            timeout_s=wait_ms / 1000 + ANSWER_S_MAX,
        )
        return passed_on(answer)

    async def proof(self, call: Call) -> web.StreamResponse:
        """That a message is in the tree, or that one tree extends another."""
        if call.query.keys() & _BETWEEN:
            between = _sizes(call)
            return passed_on(await self._core.ask("GET", "/v1/proof", call.behalf(), query=between))
        topic = topic_name(required(call.query, "topic"))
        query = {"topic": topic}
        for name in ("partition", "offset"):
            query[name] = str(whole_number(required(call.query, name), name))
        if "size" in call.query:
            query["size"] = str(whole_number(call.query["size"], "size"))
        self._gate.require_any(call.caller, topic)
        answer = await self._core.ask("GET", "/v1/proof", call.behalf(), query=query)
        if answer.status == 200:
            _require_place(answer, topic, int(query["partition"]))
        return passed_on(answer)


def _sizes(call: Call) -> dict[str, str]:
    if call.query.keys() - _BETWEEN:
        raise BadRequest(
            "query: give topic, partition and offset for a message, or from and to for two trees"
        )
    return {name: str(whole_number(required(call.query, name), name)) for name in ("from", "to")}


def _require_place(answer: Answer, topic: str, partition: int) -> None:
    """The caller may see this topic; no other one's envelope leaves here by a core's mistake."""
    try:
        producer = decode_envelope(bytes.fromhex(core_object(answer)["envelope"])).producer
    except (FormatError, ValueError, LookupError, TypeError) as error:
        raise CoreUnavailable("the core's proof can't be read", RETRY_AFTER_S) from error
    if (producer.topic, producer.partition) != (topic, partition):
        raise CoreUnavailable("the core's proof is of another topic", RETRY_AFTER_S)
