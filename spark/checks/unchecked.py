"""(i) What was not checked, and why: a report that kept silent about it would claim too much."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from pyspark.sql import DataFrame, SparkSession

SCHEMA: Final = "what string, why string"
FILES_SHOWN_MAX: Final = 20
"""By name; a folder that is full of others is told of by their number."""


@dataclass(frozen=True, slots=True)
class Scope:
    """What a report had to go by."""

    since: str | None = None
    checkpoints_from_elsewhere: int = 0
    earlier_report: bool = False
    gatekeepers_without_key: tuple[str, ...] = ()
    core_key: bool = False
    unsynced_batches: int = 0
    removed_bodies: int = 0
    encrypted_bodies: int = 0
    policy: bool = False
    grants_too_young: int = 0
    cursors: bool = False
    summarised_denials: int = 0
    control_log: bool = False
    other_files: Sequence[str] = ()


def unchecked(session: SparkSession, scope: Scope) -> DataFrame:
    """Columns what, why."""
    return session.createDataFrame(list(_reasons(scope)), SCHEMA)


def _reasons(scope: Scope) -> Iterator[tuple[str, str]]:
    if scope.since is not None:
        why = f"--since {scope.since} was given; gaps at its edge can't be told from its begin"
        yield "what was appended before the window", why
    yield from _about_integrity(scope)
    if scope.unsynced_batches:
        why = "they are not known to be synced yet; the next report has them"
        yield f"the last {scope.unsynced_batches} batches", why
    if scope.removed_bodies:
        why = "retention has removed them; their envelopes were checked"
        yield f"the bodies of {scope.removed_bodies} batches", why
    if scope.encrypted_bodies:
        why = "the audit has no key for them; their hashes were checked"
        yield f"the records in {scope.encrypted_bodies} encrypted bodies", why
    yield from _about_content(scope)
    for name in scope.other_files[:FILES_SHOWN_MAX]:
        yield f"the file {name} in the log's folder", "no log has a file of this name"
    if len(scope.other_files) > FILES_SHOWN_MAX:
        why = "no log has files of such names"
        yield f"{len(scope.other_files) - FILES_SHOWN_MAX} further files in its folder", why
    yield "messages in topics of storage `memory`", "they are never stored"
    yield "messages that wait in sidecars", "they are not in the log yet"


def _about_integrity(scope: Scope) -> Iterator[tuple[str, str]]:
    if not scope.checkpoints_from_elsewhere:
        why = "no checkpoint from elsewhere was given; --checkpoint takes a gatekeeper's"
        yield "whether the log was rewritten as a whole", why
    if not scope.core_key:
        why = "no public key of the core is known; --core-key names its file"
        yield "who signed the checkpoints", why
    if not scope.earlier_report:
        yield "consistency with an earlier report", "there is none in the report's folder"
    for gatekeeper in scope.gatekeepers_without_key:
        why = "its public key is not known; --gatekeeper-key names its file"
        yield f"provenance signatures of {gatekeeper}", why


def _about_content(scope: Scope) -> Iterator[tuple[str, str]]:
    if not scope.policy:
        yield "unused grants", "no policy file was given; --policy names it"
    if scope.grants_too_young:
        why = "this policy is not older than the window yet"
        yield f"{scope.grants_too_young} unused grants", why
    if not scope.control_log:
        yield "topics and their retention rules", "there is no control log beside the log"
    if not scope.cursors:
        yield "lag of subscriptions", "the control log has no subscription"
    if scope.summarised_denials:
        why = "their principals had so many that the gatekeeper only counted them"
        yield f"{scope.summarised_denials} denials one by one", why
