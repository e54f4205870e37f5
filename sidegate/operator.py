"""A gatekeeper's admin port, as an operator on the same machine uses it.

Finds the port and the operator's secret of the development mesh by itself; in production both are
named. Standard library only, as `client`; the secret is never printed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from sidegate.client import Answer, Connection

DEFAULT_ADMIN = "http://127.0.0.1:8444"
OPERATOR = Path("data") / "gatekeeper" / "operators" / "local"
"""Where the development gatekeeper keeps the secret of its first operator, in the state folder."""
SECRET_BYTES_MAX = 4096
"""A secret has 64 characters; whatever is larger is another file."""


class NoSecret(Exception):
    """The operator's secret can't be read; the message says what to name."""


class Operator:
    """One operator's questions to one gatekeeper."""

    def __init__(self, url: str, secret: str) -> None:
        self._connection = Connection(url)
        self._headers: Mapping[str, str] = {"Authorization": f"Bearer {secret}"}

    def __enter__(self) -> Operator:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def ask(self, method: str, path: str, document: object = None) -> Answer:
        """The gatekeeper's answer, whatever it is."""
        return self._connection.request(method, path, document, self._headers)


def read_secret(file: Path) -> str:
    """The secret in a file, or NoSecret."""
    try:
        with file.open("rb") as opened:
            secret = opened.read(SECRET_BYTES_MAX).decode("ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is no text"
        raise NoSecret(
            f"the operator's secret {file} can't be read: {reason}. Start the mesh with `make up`, "
            "or name the file with --secret: it is in operators/, in the gatekeeper's data folder."
        ) from error
    if not secret:
        raise NoSecret(f"{file} is empty; it must hold an operator's secret")
    return secret


def running_admin(state: Path) -> str | None:
    """The admin port of the mesh that runs in a state folder, wherever it was moved to."""
    try:
        record = json.loads((state / "run" / "up.json").read_bytes())
        return f"http://{record['addresses']['SIDEGATE_GATEKEEPER_ADMIN']}"
    except (OSError, ValueError, KeyError, TypeError):
        return None
