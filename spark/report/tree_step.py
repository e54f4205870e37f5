"""The tree in a report: whose checkpoints there are, and whether the log still fits them."""

import json
from pathlib import Path
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession

from log_format.checkpoint_note import log_origin
from log_format.tree import HASH_BYTES
from spark.checkpoints import Wrong, own_checkpoints, read_all
from spark.checks.tree import Stated, block_peaks, roots_at, tree_findings
from spark.report.collected import Collected
from spark.report.inputs import Inputs

PREVIOUS: Final = "the last report"


def check_tree(
    session: SparkSession,
    inputs: Inputs,
    leaves: DataFrame,
    synced: int,
    log_id: bytes,
    found: Collected,
) -> tuple[list[Stated], dict[str, Any]]:
    """Compare the log's leaves with every checkpoint at hand; what is wrong goes to `found`.

    Returns what was compared, and the tree as the report tells of it.
    """
    keys = [*inputs.core_keys, *inputs.gatekeeper_keys]
    sources = [
        *(
            (path, f"the log's own {path.relative_to(inputs.log)}")
            for path in own_checkpoints(inputs.log)
        ),
        *((path, f"the checkpoint from elsewhere, {path},") for path in inputs.checkpoints),
    ]
    # A core that has renewed its key has several under one name.
    signed_by = inputs.core_keys[0].name if inputs.core_keys else None
    stated: list[Stated] = []
    for each in read_all(sources, origin=log_origin(log_id), keys=keys, signed_by=signed_by):
        if isinstance(each, Wrong):
            found.note("integrity", each.kind, each.text)
        else:
            stated.append(each)
    stated += _previous(inputs.previous, log_id)
    for alarm in inputs.alarms:
        text = f"the gatekeeper's witness has raised an alarm: {alarm.read_text().strip()[:200]}"
        found.note("integrity", "witness_alarm", text)
    sizes = {each.size for each in stated} | {synced}
    peaks = block_peaks(leaves, sizes).collect()
    roots = roots_at([(row.block, row.size, row.peaks) for row in peaks], sizes)
    found.add(tree_findings(session, roots, stated))
    root = roots.get(synced)
    compared = [
        {"source": each.source, "size": each.size, "agrees": roots.get(each.size) == each.root}
        for each in stated
    ]
    stands = None if root is None else root.hex()
    return stated, {"size": synced, "root": stands, "compared": compared}


def _previous(path: Path | None, log_id: bytes) -> list[Stated]:
    """What the last report in the same folder said of the tree, if it was of the same log."""
    if path is None:
        return []
    try:
        document = json.loads(path.read_bytes())
        tree = document["tree"]
        root = bytes.fromhex(tree["root"] or "")
        size = int(tree["size"])
    except (OSError, ValueError, KeyError, TypeError):
        return []
    if document.get("log_id") != log_id.hex() or len(root) != HASH_BYTES:
        return []
    return [Stated(PREVIOUS, size, root)]
