"""Who may use the admin port: operators, each with a secret in a file of the gatekeeper's folder.

One file per operator, named as the operator, readable by the gatekeeper's user only. Whoever can
read it could as well replace the policy and the signing key, so it proves enough; and it works when
the issuer is down, which is when operators are needed. A file is taken up, or forgotten, at once.
"""

import hmac
import logging
import os
import re
import secrets
from pathlib import Path
from typing import Final

from hosting.lifecycle import StartError

log = logging.getLogger("sidegate.gatekeeper.operators")

FOLDER: Final = "operators"
FIRST: Final = "local"
"""The operator that is made where there is none, for the commands on the same machine."""
SECRET_BYTES: Final = 32
SECRET_CHARS_MIN: Final = 32
"""A secret that somebody chose must be as long as a random one of 128 bits in hexadecimal."""
SECRET_CHARS_MAX: Final = 1024
OPERATORS_MAX: Final = 64
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")


class Operators:
    """The folder of secrets, read anew for each question. A component: it makes the folder."""

    name = "data folder"

    def __init__(self, folder: Path) -> None:
        self._folder = folder / FOLDER

    async def start(self) -> None:
        """Make the folder and the first operator."""
        try:
            self.prepare()
        except OSError as error:
            raise StartError(f"data: the folder can't be used: {error.strerror}") from error

    async def drain(self) -> None:
        """Nothing to finish."""

    async def stop(self) -> None:
        """Nothing to end."""

    def prepare(self) -> None:
        """Make the folder, and the first operator where there is none."""
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if any(_NAME.fullmatch(path.name) for path in self._folder.iterdir()):
            return
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        file = os.open(self._folder / FIRST, flags, 0o600)
        with os.fdopen(file, "w", encoding="ascii") as opened:
            opened.write(secrets.token_hex(SECRET_BYTES) + "\n")

    def recognise(self, secret: str) -> str | None:
        """The operator whose secret this is, or None. Takes as long for every wrong one."""
        given = secret.encode("utf-8", "surrogatepass")
        found = None
        for name, known in self._secrets():
            if hmac.compare_digest(known, given):
                found = name
        return found

    def _secrets(self) -> list[tuple[str, bytes]]:
        known: list[tuple[str, bytes]] = []
        for path in sorted(self._folder.iterdir())[:OPERATORS_MAX]:
            if not _NAME.fullmatch(path.name):
                continue
            try:
                mode = path.stat().st_mode & 0o777
                text = path.read_text(encoding="utf-8").strip()
            except (OSError, UnicodeDecodeError) as error:
                log.warning(
                    "operator's secret can't be read",
                    extra={"fields": {"operator": path.name, "error": type(error).__name__}},
                )
                continue
            if mode & 0o077 or not SECRET_CHARS_MIN <= len(text) <= SECRET_CHARS_MAX:
                log.warning(
                    "operator's secret is not used: others may read it, or it is too short",
                    extra={"fields": {"operator": path.name, "mode": f"{mode:04o}"}},
                )
                continue
            known.append((path.name, text.encode()))
        return known
