"""Processor time of a process and of all that it has started, on Linux.

On a shared machine wall time measures the others too; processor time does not.
"""

import os
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid: int) -> dict[int, float] | None:
    """User and system time of the process and of each of its descendants; else None.

    What a process has waited for is counted with it. A daemon that does not wait for its children
    loses their time, which is why `cpu_spent` compares process by process.
    """
    if not Path("/proc/self/stat").exists():
        return None
    parents: dict[int, list[int]] = {}
    times: dict[int, float] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                fields = (folder / "stat").read_text().rsplit(")", 1)[1].split()
            except OSError:
                continue
            number = int(folder.name)
            parents.setdefault(int(fields[1]), []).append(number)
            times[number] = sum(map(int, fields[11:15])) / _TICKS
    found: dict[int, float] = {}
    waiting = [pid]
    while waiting:
        each = waiting.pop()
        found[each] = times.get(each, 0.0)
        waiting += parents.get(each, [])
    return found


def cpu_spent(before: dict[int, float], after: dict[int, float]) -> float:
    """Seconds between the two, of the processes that are still there."""
    return sum(spent - before.get(pid, 0.0) for pid, spent in after.items())


def own_cpu_seconds(pid: int) -> float | None:
    """User and system time of the process alone; None where it can't be had."""
    stat = Path(f"/proc/{pid}/stat")
    if not stat.exists():
        return None
    fields = stat.read_text().rsplit(")", 1)[1].split()
    return sum(map(int, fields[11:13])) / _TICKS
