"""The gatekeeper as a witness: it watches that the core's log only grows, and says so in writing.

Asks the core for its checkpoint again and again, demands a proof that it extends the last one,
remembers it on its own disk, and only then cosigns it (C2SP tlog-cosignature). What it concludes
is `witness_verdict.py`'s table; this is the shell that asks, stores, signs and raises the alarm.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from typing import Final

import orjson

from gatekeeper.config import WitnessConfig
from gatekeeper.core.upstream import CoreClient, OnBehalf
from gatekeeper.errors import CoreUnavailable, LogForked
from gatekeeper.witness.ed25519 import verify
from gatekeeper.witness.witness_memory import Remembered, WitnessMemory
from gatekeeper.witness.witness_verdict import (
    CONTRADICTIONS,
    COSIGNED,
    LATCHED,
    Verdict,
    conclude,
    facts_of,
)
from hosting.lifecycle import Readiness, StartError
from log_format.checkpoint_note import (
    BadSignature,
    Sign,
    TreeHead,
    cosign,
    parse_tree_head,
    verified_signatures,
)
from log_format.errors import FormatError
from log_format.note import Note, VerifierKey, parse_note
from log_format.tree import PROOF_HASHES_MAX

log = logging.getLogger("sidegate.gatekeeper.witness")

ALARM_EVERY_S: Final = 10.0
"""How often an alarm is logged again: whoever looks at the log sees it on the first screen."""
RETRY_AFTER_S: Final = 10.0
"""What publishers are told while the log contradicts itself: no second attempt helps soon."""


class Unproven(Exception):
    """The core did not give what a verdict needs. No proof of anything, and no cosignature."""


class Witness:
    """A hosting component. Lives in one event loop.

    `alarm` is what is wrong, None while all is well; `head` the last checkpoint that was accepted.
    """

    name = "witness"

    def __init__(
        self,
        core: CoreClient,
        memory: WitnessMemory,
        *,
        core_keys: Sequence[VerifierKey],
        own_key: VerifierKey,
        sign: Sign,
        config: WitnessConfig,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._core = core
        self._memory = memory
        self._core_keys = core_keys
        self._origin = core_keys[0].name
        self._own_key = own_key
        self._sign = sign
        self._config = config
        self._clock = clock
        self._behalf = OnBehalf(own_key.name, "gatekeeper", "witness")
        self._task: asyncio.Task[None] | None = None
        self._remembered = Remembered()
        self._heard_at = clock()
        self._logged_at: float | None = None
        self._logged_problem: str | None = None
        self.alarm: Verdict | None = None
        self.alarms = 0
        self.cosigned = 0
        self.problem: str | None = None
        self.evidence: list[str] = []

    @property
    def head(self) -> TreeHead | None:
        """The last checkpoint that was accepted."""
        return self._remembered.head

    @property
    def silent(self) -> bool:
        """Whether the core is there and has shown no acceptable checkpoint for too long."""
        return self._clock() - self._heard_at > self._config.silence_max

    def require_sound(self) -> None:
        """Raise LogForked where nothing may be appended to a log that contradicts itself."""
        if self.alarm in CONTRADICTIONS and self._config.on_fork == "refuse":
            raise LogForked(
                f"{self.alarm.text}; nothing is appended until an operator has looked into it",
                RETRY_AFTER_S,
            )

    async def start(self) -> None:
        """Read the memory and begin to watch. The core need not be there yet."""
        try:
            self._memory.prepare()
            self._remembered = self._checked(self._memory.load())
        except OSError as error:
            raise StartError(f"data: the witness's memory can't be used: {error}") from error
        if self._remembered.alarm is not None:
            known = [each for each in LATCHED if each.code == self._remembered.alarm]
            self.alarm = known[0] if known else Verdict.FORKED
        elif self._remembered.lost is not None:
            self.alarm = Verdict.MEMORY_LOST
            self.problem = self._remembered.lost
        self._log_alarm()
        self._heard_at = self._clock()
        self._task = asyncio.create_task(self._follow(), name="witness")

    async def drain(self) -> None:
        """Nothing to refuse: it is the core that is watched."""

    async def stop(self) -> None:
        """End the watch."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def readiness(self) -> Readiness:
        """Not ready while the log contradicts itself, whatever becomes of publishes."""
        return Readiness(self.alarm not in CONTRADICTIONS, self.status())

    def status(self) -> dict[str, object]:
        """What the witness knows, in a few words."""
        state = "watching" if self.head is not None else "waiting"
        if self.alarm is not None:
            state = "alarm"
        elif self.silent:
            state = "silent"
        found: dict[str, object] = {"state": state, "cosigned": self.cosigned}
        if self.head is not None:
            found |= {"size": self.head.size, "root": self.head.root.hex()}
        if self.alarm is not None:
            found |= {"alarm": self.alarm.code, "text": self.alarm.text, "see": "docs/proof.md"}
        if self.problem is not None:
            found["problem"] = self.problem
        if self.evidence:
            found["evidence"] = list(self.evidence)
        return found

    async def _follow(self) -> None:
        while True:
            try:
                await self.look()
            except (CoreUnavailable, Unproven, FormatError, OSError) as error:
                self._could_not(str(error))
            self._log_alarm()
            # Not a long poll: the core signs sooner, and syncs more often, while somebody waits.
            await asyncio.sleep(self._config.interval)

    async def look(self) -> Verdict:
        """Ask once, conclude, and act on it."""
        note = await self._shown()
        shown = parse_tree_head(note.text)
        signed, own = self._signatures(note)
        if own and self._remembered.head is None and self._remembered.lost is None:
            # Only this gatekeeper's key could have made it, and it remembers before it signs.
            self._remembered = Remembered(lost="the core has a cosignature of this gatekeeper")
        verdict = self._conclude(shown, signed, None)
        if verdict is Verdict.PROVE:
            verdict = self._conclude(shown, signed, await self._proof(shown.size))
        if verdict in COSIGNED and self.alarm not in LATCHED:
            await self._accept(note, shown, verdict, own=own)
        elif verdict not in COSIGNED:
            await self._raise_alarm(verdict, str(note))
        return verdict

    def _conclude(self, shown: TreeHead, signed: bool, hashes: list[bytes] | None) -> Verdict:
        return conclude(
            facts_of(
                shown,
                origin=self._origin,
                signed=signed,
                remembered=self._remembered.head,
                lost=self._remembered.lost is not None,
                hashes=hashes,
            )
        )

    async def _accept(self, note: Note, shown: TreeHead, verdict: Verdict, *, own: bool) -> None:
        if verdict is not Verdict.SAME:
            text = str(note)
            # On disk before anybody can hold our signature: what we signed we know for ever.
            await asyncio.to_thread(self._memory.keep, text, shown.origin)
            self._remembered = Remembered(text, shown)
        if verdict is Verdict.FIRST:
            # Of an empty log there is nothing to be trusted.
            log.log(
                logging.WARNING if shown.size else logging.INFO,
                "the first checkpoint is trusted; from now on the log may only grow",
                extra={"fields": {"origin": shown.origin, "size": shown.size}},
            )
        self._heard_at = self._clock()
        if self.alarm is not None:
            log.warning("the core shows the known tree again", extra={"fields": self.status()})
        self.alarm = self.problem = self._logged_problem = None
        if not own:
            await self._send(cosign(note, self._own_key, self._sign, int(time.time())))

    async def _raise_alarm(self, verdict: Verdict, note: str) -> None:
        if self.alarm is not verdict and self.alarm not in LATCHED:
            self.alarm = verdict
            self.alarms += 1
            self._logged_at = None
        self.problem = self._remembered.lost
        if verdict not in CONTRADICTIONS:
            return
        if verdict in LATCHED:
            await asyncio.to_thread(self._memory.keep_alarm, verdict.code)
        before = self._remembered.note
        kept = await asyncio.to_thread(self._memory.keep_evidence, verdict.code, before, note)
        self.evidence = [path.name for path in kept]

    def _log_alarm(self) -> None:
        now_s = self._clock()
        due = self._logged_at is None or now_s - self._logged_at >= ALARM_EVERY_S
        if not due or (self.alarm is None and not self.silent):
            return
        self._logged_at = now_s
        what = self.alarm.text if self.alarm is not None else "the core shows no new checkpoint"
        log.error("WITNESS ALARM: %s", what, extra={"fields": self.status()})

    def _could_not(self, why: str) -> None:
        self.problem = why
        if self._core.last_error is not None:
            # Who is not there shows nothing; that the core is away is said elsewhere.
            self._heard_at = self._clock()
        elif why != self._logged_problem:
            self._logged_problem = why
            log.warning("the core's tree can't be witnessed", extra={"fields": {"error": why}})

    def _checked(self, found: Remembered) -> Remembered:
        """The memory, if the core's key signed it: a file that has rotted is a lost one."""
        if found.note is None or found.head is None:
            return found
        signed, _own = self._signatures(parse_note(found.note))
        if signed or found.head.origin != self._origin:
            return found
        reason = "checkpoint: the core's known key has not signed what is in the file"
        return Remembered(lost=reason, alarm=found.alarm)

    def _signatures(self, note: Note) -> tuple[bool, bool]:
        """Whether the core has signed a note, and whether this gatekeeper has."""
        return any(_signed(note, key) for key in self._core_keys), _signed(note, self._own_key)

    async def _shown(self) -> Note:
        answer = await self._core.ask("GET", "/v1/checkpoint", self._behalf)
        if answer.status != 200:
            raise Unproven(f"the core answered {answer.status} when asked for its checkpoint")
        if not answer.body:
            raise Unproven("the core has signed no checkpoint yet")
        return parse_note(answer.body)

    async def _proof(self, size: int) -> list[bytes]:
        """The hashes of the consistency proof. No answer is no proof that it fails."""
        head = self._remembered.head
        query = {"from": str(head.size if head else 0), "to": str(size)}
        answer = await self._core.ask("GET", "/v1/proof", self._behalf, query=query)
        if answer.status != 200:
            raise Unproven(f"the core answered {answer.status} when asked for a proof")
        try:
            hashes = [bytes.fromhex(each) for each in orjson.loads(answer.body)["hashes"]]
        except (ValueError, LookupError, TypeError) as error:
            raise Unproven("the core's consistency proof can't be read") from error
        if len(hashes) > PROOF_HASHES_MAX:
            raise Unproven("the core's consistency proof is too long")
        return hashes

    async def _send(self, note: Note) -> None:
        body = orjson.dumps({"checkpoint": str(note)})
        answer = await self._core.ask("POST", "/v1/cosignatures", self._behalf, body=body)
        if not 200 <= answer.status < 300:
            raise Unproven(f"the core answered {answer.status} to a cosignature")
        self.cosigned += 1


def _signed(note: Note, key: VerifierKey) -> bool:
    try:
        return bool(verified_signatures(note, [key], verify))
    except BadSignature:
        return False
