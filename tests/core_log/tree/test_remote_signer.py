"""Asking a signer that is away, or talks nonsense, is an error that can be tried again."""

import socket
import threading
from pathlib import Path

import pytest

from core_log.tree.remote_signer import RemoteSigner
from core_log.tree.signing import SignerUnavailable
from log_format.checkpoint_note import TreeHead

HEAD = TreeHead("sidegate/00", 3, bytes(32))


def answering(path: Path, *answers: bytes) -> threading.Thread:
    """A server that gives each connection one answer, whatever it asks."""
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listening.bind(str(path))
    listening.listen()

    def serve() -> None:
        for answer in answers:
            connection, _ = listening.accept()
            _read_request(connection)
            head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(answer)}\r\n\r\n"
            connection.sendall(head.encode() + answer)
            connection.close()
        listening.close()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    return thread


def _read_request(connection: socket.socket) -> None:
    with connection.makefile("rb") as reading:
        length = 0
        while (line := reading.readline().strip()) != b"":
            if line.lower().startswith(b"content-length:"):
                length = int(line.split(b":")[1])
        reading.read(length)


def test_a_signer_that_is_away_is_unavailable(socket_folder: Path) -> None:
    with pytest.raises(SignerUnavailable, match="can't be asked"):
        RemoteSigner(socket_folder / "none", "sidegate/00").sign(HEAD, None, [])


@pytest.mark.parametrize("answer", [b"rubbish", b"[]", b"{}", b'{"public":"zz"}', b'{"public":1}'])
def test_nonsense_in_place_of_a_key_is_unavailable(socket_folder: Path, answer: bytes) -> None:
    thread = answering(socket_folder / "s", answer)
    with pytest.raises(SignerUnavailable):
        RemoteSigner(socket_folder / "s", "sidegate/00").key()
    thread.join()


@pytest.mark.parametrize("answer", [b"{}", b'{"signature":"zz"}', b'{"signature":null}'])
def test_nonsense_in_place_of_a_signature_is_unavailable(
    socket_folder: Path, answer: bytes
) -> None:
    key = b'{"public":"' + b"00" * 32 + b'"}'
    thread = answering(socket_folder / "s", key, answer)
    with pytest.raises(SignerUnavailable, match="answered 200"):
        RemoteSigner(socket_folder / "s", "sidegate/00").sign(HEAD, None, [])
    thread.join()
