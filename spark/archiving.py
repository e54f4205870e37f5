"""Archives a log: every sealed and synced segment that is not in the archive yet, in order.

A file's hash is handed over with what its footer says; whoever called publishes it to the log:
there it is signed, in the tree, and out of reach of whoever keeps the archive. Only then does the
file become part of the archive, so that a hash which could not be published is published by the
next attempt.
"""

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

from spark.archive_files import archived_files, file_sha256, write_archive
from spark.log_folder import segments_of
from spark.synced import synced_leaves


def archive_log(log: Path, out: Path) -> Iterator[dict[str, Any]]:
    """Write each file that is due and tell of it; asked for the next, keep it.

    Raises DamagedLog at a segment that is not whole.

    The growing segment is never archived, nor one that reaches above what is known to be synced.
    """
    done = archived_files(out)
    next_leaf = done[-1].end_leaf if done else 0
    synced = synced_leaves(log)
    segments = segments_of(log)
    for segment, following in pairwise(segments):
        if segment.first_leaf != next_leaf or following.first_leaf > synced:
            continue
        draft = write_archive(segment, following.first_leaf, out)
        footer = draft.footer
        yield {
            "file": draft.path.name,
            "sha256": file_sha256(draft.written),
            "log_id": footer.log_id,
            "first_leaf": footer.first_leaf,
            "end_leaf": footer.end_leaf,
            "tree_root": footer.tree_root,
            "segment_sha256": footer.segment_sha256,
            "messages": footer.messages,
        }
        draft.keep()
        next_leaf = footer.end_leaf
