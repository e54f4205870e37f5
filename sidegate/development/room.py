"""Whether a mesh can be made here: a folder that can be written to, and room on its disk.

Looks before anything is started, so that the reason is one sentence and not a service's end. Reads
the core's configuration and must never know what the core writes.
"""

from __future__ import annotations

import errno
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from core_log.config import CoreConfig
from hosting.config import ConfigError, load_config

MIB = 1024 * 1024
ELSEWHERE = 'choose another folder: make up ARGS="--state FOLDER"'
_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT})
_IN_THE_WAY = frozenset({errno.EEXIST, errno.ENOTDIR})


class NoRoom(Exception):
    """The folder can't be used; the message says why and what to do."""


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """NoRoom for whatever the system refuses while the block writes below `folder`."""
    try:
        yield
    except OSError as error:
        if error.errno in _NO_ROOM:
            text = f"{folder} can't be written, its disk is full: free some space, or {ELSEWHERE}"
        elif error.errno in _IN_THE_WAY:
            place = error.filename or folder
            text = f"{place} is a file where a folder belongs: move it away, or {ELSEWHERE}"
        else:
            text = f"{folder} can't be written: {error.strerror}. Mend that, or {ELSEWHERE}"
        raise NoRoom(text) from error


def check_disk(config: Path, environ: Mapping[str, str]) -> None:
    """NoRoom where the core, configured like this, would refuse every message from the start.

    A configuration that can't be read is the core's to report, with all of its problems.
    """
    try:
        core = load_config(CoreConfig, service="core", path=config, environ=environ)
    except ConfigError:
        return
    place = next(each for each in (core.data, *core.data.parents) if each.exists())
    free, reserve = shutil.disk_usage(place).free, core.log.disk_reserve_bytes
    if free < reserve:
        raise NoRoom(
            f"the disk of {core.data} has {free / MIB:.1f} MiB free, and the core keeps "
            f"{reserve / MIB:.0f} MiB in reserve (log.disk_reserve_bytes), so that it would take "
            f"no message: free some space, or {ELSEWHERE}"
        )
