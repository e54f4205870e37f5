"""What a report is made from: files that the auditor names, or that lie in a state folder."""

from dataclasses import dataclass
from pathlib import Path

from log_format.note import VerifierKey
from spark.checkpoints import read_keys
from spark.grants import Policy, read_policy
from spark.log_folder import LOG_IN_STATE, log_folder

WITNESS = Path("data") / "gatekeeper" / "witness"
"""The gatekeeper's own memory of the log's checkpoints, below a development state folder."""


@dataclass(frozen=True, slots=True)
class Inputs:
    """One report's sources. `checkpoints` come from elsewhere than the log's own folder."""

    log: Path
    since: str | None = None
    checkpoints: tuple[Path, ...] = ()
    core_keys: tuple[VerifierKey, ...] = ()
    gatekeeper_keys: tuple[VerifierKey, ...] = ()
    policy: Policy | None = None
    policy_name: str = "policy.yaml"
    alarms: tuple[Path, ...] = ()
    previous: Path | None = None
    window_days: int = 30


def find_inputs(
    path: Path,
    *,
    since: str | None = None,
    checkpoints: tuple[Path, ...] = (),
    core_keys: tuple[Path, ...] = (),
    gatekeeper_keys: tuple[Path, ...] = (),
    policy: Path | None = None,
    previous: Path | None = None,
    window_days: int = 30,
) -> Inputs:
    """What is named, and for the rest what lies in the state folder of a development mesh.

    `path` is a state folder or a log's own folder. Raises NoLog, BadKey or BadPolicy.
    """
    log = log_folder(str(path))
    state = path if log == path / LOG_IN_STATE else None
    if state is not None:
        witness = state / WITNESS
        checkpoints = checkpoints or _existing(witness / "checkpoint")
        core_keys = core_keys or _existing(state / "core.pub")
        gatekeeper_keys = gatekeeper_keys or _existing(state / "gatekeeper.pub")
        policy = policy or next(iter(_existing(state / "policy.yaml")), None)
    alarms = tuple(alarm for each in checkpoints for alarm in _existing(each.parent / "alarm"))
    return Inputs(
        log=log,
        since=since,
        checkpoints=checkpoints,
        core_keys=tuple(key for each in core_keys for key in read_keys(each)),
        gatekeeper_keys=tuple(key for each in gatekeeper_keys for key in read_keys(each)),
        policy=None if policy is None else read_policy(policy.read_bytes()),
        policy_name="policy.yaml" if policy is None else policy.name,
        alarms=alarms,
        previous=previous,
        window_days=window_days,
    )


def _existing(path: Path) -> tuple[Path, ...]:
    return (path,) if path.is_file() else ()
