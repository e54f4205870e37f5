"""Runs all checks over one log and gathers what they say.

The order is that of the report. Each step is named to `progress` before it begins.
"""

from collections.abc import Callable
from dataclasses import astuple
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from spark.checks.access import access_matrix
from spark.checks.anomalies import anomalies
from spark.checks.completeness import completeness, cut_off
from spark.checks.delivery import dead_letters, delivery
from spark.checks.denials import denial_bursts, denials
from spark.checks.least_privilege import UNUSED, least_privilege, uses
from spark.checks.retention import retention
from spark.checks.signatures import NO_KEY, signature_findings, signatures
from spark.checks.unchecked import Scope, unchecked
from spark.control_state import Control, read_control
from spark.cursors import SCHEMA as CURSORS_SCHEMA
from spark.cursors import read_cursors
from spark.damage import Damage
from spark.grants import FailingTests, policy_diff
from spark.log_folder import foreign_files, foreign_segments, other_files, segments_of
from spark.report.collected import Collected
from spark.report.inputs import Inputs
from spark.report.result import Result, Table, table
from spark.report.rows import Rows, read_rows
from spark.report.tree_step import PREVIOUS, check_tree
from spark.report.volume import totals, volume

Progress = Callable[[str], None]
GRANTS_SCHEMA: Final = "rule string, subject string, principals array<string>, judged boolean"
TOPICS_SCHEMA: Final = "topic string, age_ms bigint, retention_bytes bigint, deleted boolean"


def gather(
    session: SparkSession,
    inputs: Inputs,
    scratch: Path,
    progress: Progress,
    *,
    now: datetime | None = None,
    failing: FailingTests = lambda _: (),
) -> tuple[Result, Rows]:
    """Make a report. `scratch` is a folder for rows that are needed more than once.

    `failing` tells which tests of a policy fail, so that the policy diff can be applied.
    """
    made = now or datetime.now(UTC)
    segments = segments_of(inputs.log)
    log_id = next((each.log_id for each in segments if each.log_id is not None), b"")
    progress("Reading and verifying the log")
    rows = read_rows(session, inputs.log, inputs.since, scratch)
    progress("Checking completeness")
    found = Collected(session)
    found.add(completeness(rows.batches, from_start=inputs.since is None))
    found.add(cut_off(rows.history, rows.synced))
    found.note_damage([*foreign_files(inputs.log), *foreign_segments(segments)], "completeness")
    progress("Recomputing the tree")
    stated, tree = check_tree(session, inputs, rows.history, rows.synced, log_id, found)
    progress("Checking signatures")
    keys = {key.name: key.public for key in inputs.gatekeeper_keys}
    judged = signatures(rows.batches, keys).persist()
    found.add(signature_findings(judged))
    without_key = judged.filter(f.col("signature") == NO_KEY).select("gatekeeper").distinct()
    gatekeepers = tuple(sorted(row.gatekeeper for row in without_key.collect()))
    judged.unpersist()
    progress("Looking at control state and delivery")
    damage: list[Damage] = []
    control = read_control(inputs.log, damage.append)
    cursors = read_cursors(inputs.log, control.subscriptions.values(), damage.append)
    found.note_damage(damage, "completeness")
    progress("Looking at access, denials and what is unusual")
    tables = _content(session, inputs, rows, control, made)
    places = session.createDataFrame([astuple(each) for each in cursors], CURSORS_SCHEMA)
    lag = delivery(places, rows.history)
    tables["delivery"] = table("delivery", lag, order=[f.desc("lag")])
    numbers = totals(rows.batches)
    numbers |= {"segments": len(segments), "synced_leaves": rows.synced}
    diff, young = _unused(tables.get("least_privilege"), inputs, failing)
    scope = Scope(
        since=inputs.since,
        checkpoints_from_elsewhere=len(inputs.checkpoints),
        core_key=bool(inputs.core_keys),
        earlier_report=any(each.source == PREVIOUS for each in stated),
        gatekeepers_without_key=gatekeepers,
        unsynced_batches=rows.unsynced,
        removed_bodies=numbers["removed_bodies"],
        encrypted_bodies=numbers["encrypted_bodies"],
        policy=inputs.policy is not None,
        grants_too_young=young,
        cursors=bool(cursors),
        summarised_denials=numbers_of_summaries(rows.decisions),
        control_log=control.found,
        other_files=other_files(inputs.log),
    )
    tables["unchecked"] = table("unchecked", unchecked(session, scope))
    tables["findings"] = table("findings", found.frame(), order=["check", "kind", "leaf"])
    result = Result(str(inputs.log), log_id.hex(), made, inputs.since, numbers, tree, tables, diff)
    return result, rows


def _content(
    session: SparkSession, inputs: Inputs, rows: Rows, control: Control, made: datetime
) -> dict[str, Table]:
    batches, decided = rows.batches, rows.decisions
    topics = session.createDataFrame(
        [
            (each.name, each.age_ms, each.retention_bytes, each.deleted)
            for each in control.topics.values()
        ],
        TOPICS_SCHEMA,
    )
    newest = batches.agg(f.max("append_time")).first()
    end = newest[0] if newest is not None and newest[0] is not None else made
    begin = f.lit(end) - f.expr(f"interval {inputs.window_days} days")
    since = begin if inputs.since is None else f.lit(inputs.since).cast("timestamp")
    frames: dict[str, tuple[DataFrame, list[Any]]] = {
        "access": (access_matrix(batches, decided), [f.desc("count"), "principal"]),
        "denials": (denials(decided), [f.desc("count"), "principal"]),
        "bursts": (denial_bursts(decided), ["minute"]),
        "dead_letters": (dead_letters(batches), [f.desc("count")]),
        "anomalies": (anomalies(rows.history, since), [f.desc("at")]),
        "retention": (retention(batches, topics), ["topic", "partition"]),
        "volume": (volume(batches), ["at"]),
    }
    if inputs.policy is not None:
        grants = _grants(session, inputs, rows, since)
        frames["least_privilege"] = (
            least_privilege(
                grants,
                uses(
                    batches.filter(f.col("append_time") >= since),
                    decided.filter(f.col("at") >= since),
                ),
            ),
            ["verdict", "rule", "subject"],
        )
    return {name: table(name, frame, order=order) for name, (frame, order) in frames.items()}


def _grants(session: SparkSession, inputs: Inputs, rows: Rows, since: Any) -> DataFrame:
    """The policy's grants, judged if this very policy was in force before the window began."""
    policy = inputs.policy
    if policy is None:
        return session.createDataFrame([], GRANTS_SCHEMA)
    seen = rows.history.select("policy_hash", f.col("append_time").alias("at")).unionByName(
        rows.decisions.select("policy_hash", "at")
    )
    first = seen.filter(f.col("policy_hash") == policy.digest).agg(
        f.coalesce(f.min("at") <= since, f.lit(False)).alias("old")
    )
    row = first.first()
    old = bool(row is not None and row["old"])
    return session.createDataFrame(
        [
            (
                each.rule,
                each.subject,
                None if each.principals is None else list(each.principals),
                old,
            )
            for each in policy.grants
        ],
        GRANTS_SCHEMA,
    )


def _unused(judged: Table | None, inputs: Inputs, failing: FailingTests) -> tuple[str, int]:
    """The diff that takes unused grants away, and how many were too young to judge."""
    if judged is None or inputs.policy is None:
        return "", 0
    unused = {(row["rule"], row["subject"]) for row in judged.rows if row["verdict"] == UNUSED}
    young = sum(1 for row in judged.rows if row["verdict"] not in (UNUSED, "used"))
    return policy_diff(inputs.policy, unused, inputs.policy_name, failing), young


def numbers_of_summaries(decided: DataFrame) -> int:
    """Denials that are only counted in summaries."""
    row = decided.filter("kind = 'denials'").agg(f.coalesce(f.sum("count"), f.lit(0))).first()
    return 0 if row is None else int(row[0])
