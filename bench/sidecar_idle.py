"""What a sidecar costs that does nothing: its memory, and how soon it is ready.

python -m bench.sidecar_idle [--rounds 5] [--idle 3] [--folder DIR]

A service is added to the mesh as `make up` runs it, and its sidecar started again and again: from
the start of the process until `/readyz` says 200, and its resident memory after a while.
"""

import argparse
import contextlib
import http.client
import json
import re
import statistics
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

from bench.development_mesh import DevelopmentMesh
from bench.runner import RESULTS

RESIDENT_MB_MAX = 70.0
READY_S_MAX = 1.0
_RESIDENT = re.compile(r"^VmRSS:\s+(\d+) kB", re.MULTILINE)
ASK_AGAIN_S = 0.01


def resident_mb(pid: int) -> float:
    """Resident memory of a process. Linux only."""
    found = _RESIDENT.search(Path(f"/proc/{pid}/status").read_text())
    if found is None:
        raise RuntimeError("the system does not tell how much memory a process uses")
    return int(found[1]) * 1024 / 1e6


def is_ready(url: str) -> bool:
    """Whether its `/readyz` says 200."""
    where = urlsplit(url)
    connection = http.client.HTTPConnection(str(where.hostname), where.port, timeout=5)
    with contextlib.closing(connection), contextlib.suppress(OSError):
        connection.request("GET", "/readyz")
        return connection.getresponse().status == 200
    return False


def measure(mesh: DevelopmentMesh, url: str, config: str, idle_s: float) -> tuple[float, float]:
    """Seconds until ready, and megabytes after `idle_s`."""
    begin = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-m", "sidegate", "sidecar", "--config", config],
        cwd=mesh.folder,
        stdin=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        while not is_ready(url):
            if process.poll() is not None or time.monotonic() > begin + 30:
                raise RuntimeError("the sidecar did not start")
            time.sleep(ASK_AGAIN_S)
        ready_s = time.monotonic() - begin
        time.sleep(idle_s)
        return ready_s, resident_mb(process.pid)
    finally:
        process.terminate()
        process.wait(20)


def main() -> int:
    """Measure and print; 1 if a limit is passed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--idle", type=float, default=3)
    parser.add_argument("--folder", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    with DevelopmentMesh(arguments.folder) as mesh:
        added = json.loads(mesh.command("service", "add", "idle", "--json"))
        taken = [
            measure(mesh, added["url"], added["config"], arguments.idle)
            for _ in range(arguments.rounds)
        ]
    ready_s, resident = ([each[part] for each in taken] for part in (0, 1))
    reached = True
    figures = {}
    for name, samples, limit in (
        ("ready after, s", ready_s, READY_S_MAX),
        ("resident when idle, MB", resident, RESIDENT_MB_MAX),
    ):
        median = statistics.median(samples)
        verdict = "reached" if median <= limit else "SHORT"
        spread = f"{min(samples):.2f} to {max(samples):.2f}"
        print(f"{name}: {median:.2f} ({spread}), at most {limit:g}: {verdict}")
        reached &= median <= limit
        figures[name] = {"samples": samples, "median": median, "at_most": limit}
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / "sidecar-idle.json").write_text(json.dumps(figures, indent=2) + "\n")
    return 0 if reached else 1


if __name__ == "__main__":
    sys.exit(main())
