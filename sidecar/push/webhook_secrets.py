"""Secrets of webhooks: small files below one folder, readable by the sidecar alone.

Read when they are used, so that a changed file needs no restart; a file that did not change since
is not read again. Their contents leave here as bytes to sign with and go nowhere else.
"""

import os
import stat
from pathlib import Path
from typing import Final

from sidecar.push.webhook_signature import BadSecret, parse_secret

FILE_BYTES_MAX: Final = 8 * 1024
"""A token with many claims; a signing key has a hundred bytes."""
FILES_MAX: Final = 1024
"""Contents that are remembered."""


class SecretUnusable(Exception):
    """A file that cannot be used. The text names the file and the reason, never its contents."""


class WebhookSecrets:
    """The files below `folder`. Blocking, for as long as one small read takes."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._known: dict[str, tuple[tuple[int, int, int], bytes]] = {}

    def signing_key(self, name: str) -> bytes:
        """The key in a file that holds `whsec_…`."""
        try:
            return parse_secret(self.text(name))
        except BadSecret as error:
            raise SecretUnusable(f"secret_file {name}: {error}") from None

    def text(self, name: str) -> str:
        """The text in a file, without the line end."""
        try:
            text = self._read(name).decode("ascii").strip()
        except UnicodeDecodeError:
            raise SecretUnusable(f"secret_file {name}: must be ASCII") from None
        if not text or not text.isprintable():
            raise SecretUnusable(f"secret_file {name}: must hold one line")
        return text

    def _read(self, name: str) -> bytes:
        if self._folder is None:
            raise SecretUnusable(
                f"secret_file {name}: this sidecar has no folder for secrets; "
                "set push.secrets in its configuration"
            )
        try:
            # Without following a link: what lies below the folder is what its owner put there.
            descriptor = os.open(
                self._folder / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
            )
        except OSError as error:
            raise SecretUnusable(
                f"secret_file {name}: cannot be read below push.secrets: {error.strerror}"
            ) from error
        try:
            facts = os.fstat(descriptor)
            if not stat.S_ISREG(facts.st_mode):
                raise SecretUnusable(f"secret_file {name}: is no plain file")
            if facts.st_mode & 0o077:
                raise SecretUnusable(f"secret_file {name}: others may read it; chmod 600 the file")
            version = (facts.st_mtime_ns, facts.st_ino, facts.st_size)
            known = self._known.get(name)
            if known is not None and known[0] == version:
                return known[1]
            if facts.st_size > FILE_BYTES_MAX:
                raise SecretUnusable(f"secret_file {name}: is larger than {FILE_BYTES_MAX} bytes")
            content = os.read(descriptor, FILE_BYTES_MAX)
        finally:
            os.close(descriptor)
        if len(self._known) >= FILES_MAX:
            self._known.clear()
        self._known[name] = version, content
        return content
