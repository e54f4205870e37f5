"""The policy in force: read at the start, and read again when its file changes.

A changed file takes effect within a second once it has come to rest, after its own tests have
passed. A file that is broken, fails its tests or is gone leaves the last good policy in force, and
`readiness`, the metrics and the log say so. Polling, because it works the same on every system and
file system; a look costs one `stat`.

May import `load` and `hosting`; must never know what a policy says.
"""

import asyncio
import hashlib
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge

from gatekeeper.policy.decide import Policy
from gatekeeper.policy.load import load_policy
from gatekeeper.policy.problem import PolicyError
from hosting.environment import Environment
from hosting.lifecycle import Readiness, StartError

log = logging.getLogger("sidegate.gatekeeper")

POLL_S: Final = 0.1
"""How often the file is looked at. With the time to rest and to load, well below a second."""
SETTLE_S: Final = 0.2
"""How long a changed file must rest before it is read. An editor that writes in place leaves, for
a moment, a file that ends early: sound YAML perhaps, without its denies."""
PROBLEMS_SHOWN_MAX: Final = 20
"""Problems in one log line and on `/readyz`; `sidegate policy check` lists all."""


@dataclass(frozen=True, slots=True)
class Stamp:
    """What tells one state of a file from another without reading it. A file that was replaced
    has another inode, one that was written in place another time."""

    device: int
    inode: int
    size: int
    modified_ns: int
    changed_ns: int


UNREAD: Final = Stamp(0, 0, 0, 0, 0)
"""A state that no file has: whatever is there has yet to be read at rest."""


@dataclass(frozen=True, slots=True)
class Watch:
    """The state that was read last, the state that was seen last, and since when it is so.

    None is a file that is not there.
    """

    read: Stamp | None
    seen: Stamp | None
    since_s: float


def observe(watch: Watch, stamp: Stamp | None, now_s: float) -> tuple[Watch, bool]:
    """One look at the file: what is known now, and whether it is time to read."""
    if stamp != watch.seen:
        return Watch(watch.read, stamp, now_s), False
    if stamp == watch.read or now_s - watch.since_s < SETTLE_S:
        return watch, False
    return Watch(stamp, stamp, watch.since_s), True


@dataclass(frozen=True, slots=True)
class Rejection:
    """A file that did not take effect, and since when."""

    at: float
    problems: tuple[str, ...]


class PolicyFile:
    """A policy file and the policy in force. A component; used from one event loop.

    `changed` is called with every policy that takes effect, the first one too, in the event loop.
    """

    name = "policy"

    def __init__(
        self,
        path: Path,
        *,
        environment: Environment,
        registry: CollectorRegistry,
        changed: Callable[[Policy], None],
    ) -> None:
        self.path = path
        self.rejection: Rejection | None = None
        self.loaded_at = 0.0
        self._environment: Environment = environment
        self._changed = changed
        self._policy: Policy | None = None
        self._watch = Watch(UNREAD, None, 0.0)
        self._task: asyncio.Task[None] | None = None
        self._loads = Counter(
            "sidegate_gatekeeper_policy_loads",
            "Policy files read, by whether they took effect.",
            ["result"],
            registry=registry,
        )
        self._rejected = Gauge(
            "sidegate_gatekeeper_policy_rejected",
            "1 while the policy file is refused and an older policy is in force.",
            registry=registry,
        )
        self._loaded = Gauge(
            "sidegate_gatekeeper_policy_loaded_timestamp_seconds",
            "When the policy in force took effect.",
            registry=registry,
        )

    @property
    def policy(self) -> Policy:
        """The policy in force."""
        if self._policy is None:
            raise RuntimeError("the policy is not loaded yet; start this component first")
        return self._policy

    def readiness(self) -> Readiness:
        """Ready with any policy in force; a refused newer file is told in the detail."""
        if self._policy is None:
            return Readiness(ready=False, detail={"problem": "no policy is loaded yet"})
        detail: dict[str, object] = {
            "sha256": self._policy.hash.hex(),
            "loaded_at": round(self.loaded_at, 3),
            "rules": len(self._policy.tables.rules) + len(self._policy.document.denies),
        }
        if self.rejection is not None:
            detail["warning"] = "the policy file is refused; the last good policy is in force"
            detail["refused_at"] = round(self.rejection.at, 3)
            detail["problems"] = list(self.rejection.problems[:PROBLEMS_SHOWN_MAX])
            detail["problem_count"] = len(self.rejection.problems)
        return Readiness(ready=True, detail=detail)

    async def start(self) -> None:
        """Load the file, which must be good, and watch it from then on."""
        stamp = await asyncio.to_thread(_stamp, self.path)
        # What is read now may be half written: it is read once more when it has come to rest.
        self._watch = Watch(UNREAD, stamp, asyncio.get_running_loop().time())
        try:
            policy = await asyncio.to_thread(self._load, stamp)
        except (OSError, PolicyError) as error:
            raise StartError(f"the policy can't take effect: {error}") from error
        if policy is None:
            raise StartError(f"{self.path} was written while it was read; start again")
        self._take(policy)
        self._task = asyncio.create_task(self._poll(), name="policy file")

    async def drain(self) -> None:
        """Nothing was accepted that could be finished."""

    async def stop(self) -> None:
        """Stop watching."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})
            self._task = None

    async def look(self, now_s: float) -> None:
        """Look at the file once, and take up what is new and at rest."""
        before = self._watch
        stamp = await asyncio.to_thread(_stamp, self.path)
        self._watch, due = observe(before, stamp, now_s)
        if not due:
            return
        try:
            policy = await asyncio.to_thread(self._load, stamp)
            if policy is None:
                # Written while it was read: what was read is no state that anybody meant.
                self._watch = before
            else:
                self._take(policy)
        except PolicyError as error:
            self._reject(error.lines)
        except OSError as error:
            self._reject((f"{self.path.name}: can't be read: {error.strerror or error}",))
        except Exception:
            # A fault of ours must not end the watch: the next version of the file may be fine.
            log.exception("policy could not be taken up", extra={"fields": self._fields()})
            self._reject((f"{self.path.name}: could not be taken up; the log has the error",))

    async def _poll(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(POLL_S)
            await self.look(loop.time())

    def _load(self, stamp: Stamp | None) -> Policy | None:
        data = self.path.read_bytes()
        if _stamp(self.path) != stamp:
            return None
        if self._policy is not None and hashlib.sha256(data).digest() == self._policy.hash:
            return self._policy
        return load_policy(
            data, file=self.path.name, folder=self.path.parent, environment=self._environment
        )

    def _take(self, policy: Policy) -> None:
        before = self._policy
        if policy is before and self.rejection is not None:
            log.info("policy file is good again", extra={"fields": self._fields()})
        if policy is not before:
            self._policy = policy
            try:
                self._changed(policy)
            except Exception:
                self._policy = before
                raise
            self.loaded_at = time.time()
            self._loaded.set(self.loaded_at)
            self._loads.labels("taken").inc()
            log.info("policy took effect", extra={"fields": self._fields()})
        self.rejection = None
        self._rejected.set(0)

    def _reject(self, problems: tuple[str, ...]) -> None:
        self.rejection = Rejection(time.time(), problems)
        self._loads.labels("refused").inc()
        self._rejected.set(1)
        fields = self._fields() | {
            "problems": list(problems[:PROBLEMS_SHOWN_MAX]),
            "problem_count": len(problems),
        }
        log.error(
            "policy file refused; the last good policy stays in force", extra={"fields": fields}
        )

    def _fields(self) -> dict[str, object]:
        in_force = None if self._policy is None else self._policy.hash.hex()
        return {"file": str(self.path), "sha256": in_force}


def _stamp(path: Path) -> Stamp | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return Stamp(found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
