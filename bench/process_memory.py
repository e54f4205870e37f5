"""What a process holds for itself alone; pages shared with the system's cache don't count."""

import re
from pathlib import Path

_PRIVATE = re.compile(r"^Private_(?:Clean|Dirty):\s+(\d+) kB", re.MULTILINE)


def unshared_bytes(pid: int) -> int:
    """Private pages of a process, clean and dirty. Linux only."""
    rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return 1024 * sum(int(size) for size in _PRIVATE.findall(rollup))
