"""The signer's configuration: what `signer.yaml` and `SIDEGATE_SIGNER_…` may say."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from core_log.config import LogLevel
from hosting.environment import Environment
from hosting.units import Address


@dataclass(frozen=True, slots=True)
class SignerConfig:
    """One signer, for one core. It listens at a Unix socket and knows its caller by the kernel."""

    listen: Address
    signing_key: Path
    """Ed25519 in PEM, mode 0600, of a user that the core does not run as."""
    data: Path
    """Where it remembers what it has signed: not the core's to write."""
    admit_uids: tuple[int, ...] = ()
    """The user id that the core runs as."""
    environment: Environment = "production"
    log_level: LogLevel = "info"

    def problems(self) -> Iterator[tuple[str, str]]:
        """Whatever would let anybody sign, or nobody."""
        if not self.listen.is_unix:
            yield "listen", "must be a Unix socket (unix:PATH), where the kernel names the caller"
        if not self.admit_uids:
            yield "admit_uids", "must name the user id that the core runs as"
        for uid in self.admit_uids:
            if uid < 0:
                yield "admit_uids", f"{uid} is not a user id"
