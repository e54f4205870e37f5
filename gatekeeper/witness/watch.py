"""Whether this gatekeeper is a witness, and what the rest of it needs to know of that.

With the core's public key it is one (`witness.py`); without, it says so where people look, and
nothing else changes.
"""

import logging

from gatekeeper.config import GatekeeperConfig
from gatekeeper.core.upstream import CoreClient
from gatekeeper.metrics import GateMetrics
from gatekeeper.provenance import Sealer
from gatekeeper.witness.ed25519 import load_core_keys
from gatekeeper.witness.witness import Witness
from gatekeeper.witness.witness_memory import WitnessMemory
from gatekeeper.witness.witness_verdict import COSIGNED, Verdict
from hosting.lifecycle import Readiness

log = logging.getLogger("sidegate.gatekeeper.witness")

_OFF = "core.public_key is not set: this gatekeeper is no witness"


class Watch:
    """A hosting component. `witness` is None where the core's key is not known."""

    name = "witness"

    def __init__(self, config: GatekeeperConfig, core: CoreClient, sealer: Sealer) -> None:
        self.witness: Witness | None = None
        if config.core.public_key is not None:
            self.witness = Witness(
                core,
                WitnessMemory(config.data),
                core_keys=load_core_keys(config.core.public_key),
                own_key=sealer.witness_key,
                sign=sealer.cosign,
                config=config.witness,
            )

    async def start(self) -> None:
        """Begin to watch."""
        if self.witness is None:
            log.warning(_OFF)
        else:
            await self.witness.start()

    async def drain(self) -> None:
        """Nothing to refuse."""

    async def stop(self) -> None:
        """End the watch."""
        if self.witness is not None:
            await self.witness.stop()

    def require_sound(self) -> None:
        """Raise LogForked where nothing may be appended."""
        if self.witness is not None:
            self.witness.require_sound()

    def readiness(self) -> Readiness:
        """What the witness says; a gatekeeper that is none is ready all the same."""
        if self.witness is None:
            return Readiness(ready=True, detail={"state": "off", "problem": _OFF})
        return self.witness.readiness()

    def measure(self, metrics: GateMetrics) -> None:
        """The numbers to watch the watch by."""
        witness = self.witness
        metrics.read_labelled(
            "sidegate_gatekeeper_witness_alarm",
            "1 for the alarm that stands: the core's log contradicts what this witness has seen.",
            "alarm",
            lambda: (
                {}
                if witness is None
                else {
                    verdict.code: float(witness.alarm is verdict)
                    for verdict in Verdict
                    if verdict not in COSIGNED and verdict is not Verdict.PROVE
                }
                | {"silent": float(witness.silent)}
            ),
        )
        metrics.gauge(
            "sidegate_gatekeeper_witness_size",
            "Leaves of the last checkpoint that was accepted.",
            lambda: witness.head.size if witness is not None and witness.head is not None else 0,
        )
        metrics.read_count(
            "sidegate_gatekeeper_witness_cosigned",
            "Checkpoints that this gatekeeper cosigned.",
            lambda: 0 if witness is None else witness.cosigned,
        )
        metrics.read_count(
            "sidegate_gatekeeper_witness_alarms",
            "Alarms raised.",
            lambda: 0 if witness is None else witness.alarms,
        )
