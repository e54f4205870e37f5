"""What an envelope says about its sender and its body, as the values of columns."""

from collections.abc import Callable
from typing import Final

from log_format.envelope import Envelope
from log_format.parts import Producer, Provenance

BODY_STORED: Final = "stored"
BODY_REMOVED: Final = "removed"
BODY_ENCRYPTED: Final = "encrypted"

_PROVEN: Final[dict[str, Callable[[Provenance], str]]] = {
    "principal": lambda part: part.principal,
    "issuer": lambda part: part.issuer,
    "client_id": lambda part: part.client_id,
    "thumbprint": lambda part: part.thumbprint.hex(),
    "token_id": lambda part: part.token_id,
    "decision_id": lambda part: decision_text(part.decision_id),
    "policy_hash": lambda part: part.policy_hash.hex(),
    "rule": lambda part: part.rule,
    "gatekeeper": lambda part: part.gatekeeper_id,
}
_CLAIMED: Final[dict[str, Callable[[Producer], int]]] = {
    "producer_id": lambda part: part.producer_id,
    "epoch": lambda part: part.epoch,
}


def sender_value(envelope: Envelope, name: str) -> str | int | None:
    """One column that tells who sent the batch; null where that would be in its provenance and it
    has none, as the core's own batches."""
    if name in _CLAIMED:
        return _CLAIMED[name](envelope.producer)
    return None if envelope.provenance is None else _PROVEN[name](envelope.provenance)


def sender_values(envelope: Envelope) -> dict[str, str | int | None]:
    """Every column that tells who sent the batch."""
    return {name: sender_value(envelope, name) for name in (*_PROVEN, *_CLAIMED)}


def decision_text(decision_id: bytes) -> str:
    """A decision id as people quote it: in the notation of a UUID."""
    text = decision_id.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def body_state(envelope: Envelope) -> str:
    """Whether the batch's body can be read."""
    if not envelope.has_body:
        return BODY_REMOVED
    return BODY_ENCRYPTED if envelope.encrypted else BODY_STORED
