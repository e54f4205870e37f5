"""Asks a signer process for signatures, over its Unix socket. Blocking, for a thread of its own.

Standard library and the format. What comes back is verified by whoever asked.
"""

import http.client
import json
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from core_log.tree.signing import NotAnExtension, SignerUnavailable
from log_format.checkpoint_note import TreeHead, parse_tree_head
from log_format.errors import FormatError
from log_format.note import Note, Signature, SignatureType, VerifierKey

ANSWER_S_MAX: Final = 5.0
"""A signature takes a sync of the signer's disk: far less than this unless that hangs."""
_ANSWER_BYTES_MAX: Final = 64 * 1024
_NEW_TREE: Final = 0


class _UnixConnection(http.client.HTTPConnection):
    """HTTP to a Unix socket."""

    def __init__(self, path: Path) -> None:
        super().__init__("signer", timeout=ANSWER_S_MAX)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(ANSWER_S_MAX)
        self.sock.connect(str(self._path))


class RemoteSigner:
    """A signer in another process. One thread at a time."""

    def __init__(self, path: Path, origin: str) -> None:
        self._path = path
        self._origin = origin
        self._key: VerifierKey | None = None

    def key(self) -> VerifierKey:
        """The signer's public key under this log's origin; asked for once."""
        if self._key is None:
            status, answer = self._ask("GET", "/key", None)
            try:
                public = bytes.fromhex(answer["public"])
                self._key = VerifierKey(self._origin, SignatureType.ED25519, public)
            except (LookupError, TypeError, ValueError) as error:
                raise SignerUnavailable(f"the signer answered {status} without a key") from error
        return self._key

    def sign(self, head: TreeHead, before: TreeHead | None, proof: Sequence[bytes]) -> Note:
        """The signed note, or why there is none."""
        key = self.key()
        body = {
            "checkpoint": head.text,
            "from": _NEW_TREE if before is None else before.size,
            "proof": [each.hex() for each in proof],
        }
        status, answer = self._ask("POST", "/sign", body)
        if status == 409:
            raise NotAnExtension(str(answer.get("detail")), _head(answer.get("checkpoint")))
        try:
            signature = bytes.fromhex(answer["signature"])
        except (LookupError, TypeError, ValueError) as error:
            detail = answer.get("detail", "no signature")
            raise SignerUnavailable(f"the signer answered {status}: {detail}") from error
        return Note(head.text, (Signature(key.name, key.id, signature),))

    def _ask(self, method: str, path: str, body: object) -> tuple[int, dict[str, Any]]:
        connection = _UnixConnection(self._path)
        try:
            data = None if body is None else json.dumps(body)
            connection.request(method, path, data, {"Content-Type": "application/json"})
            response = connection.getresponse()
            answer = json.loads(response.read(_ANSWER_BYTES_MAX))
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise SignerUnavailable(
                f"the signer at {self._path} can't be asked: {error}"
            ) from error
        finally:
            connection.close()
        if not isinstance(answer, dict):
            raise SignerUnavailable(f"the signer answered {response.status} with no object")
        return response.status, answer


def _head(text: object) -> TreeHead | None:
    if not isinstance(text, str):
        return None
    try:
        return parse_tree_head(text)
    except FormatError:
        return None
