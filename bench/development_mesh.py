"""The whole mesh as `make up` runs it, on free ports, with its data on the disk of a folder."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from types import TracebackType
from urllib.parse import urlsplit

READY_S_MAX = 60.0
STOP_S_MAX = 20.0


class DevelopmentMesh:
    """Core, issuer, gatekeeper and sidecar: made anew on entering, gone on leaving."""

    def __init__(self, parent: Path, **environ: str) -> None:
        self._parent = parent
        self._environ = environ
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> "DevelopmentMesh":
        self._parent.mkdir(parents=True, exist_ok=True)
        self.folder = Path(tempfile.mkdtemp(prefix="sidegate-bench-", dir=self._parent))
        kept = {name: text for name, text in os.environ.items() if not name.startswith("SIDEGATE_")}
        with (self.folder / "up.log").open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "sidegate", "up", "--ports", "free", "--json"],
                cwd=self.folder,
                env={**kept, **self._environ, "PYTHONPATH": str(Path(__file__).parents[1])},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
            )
        self.url = self._ready()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._process is not None:
            if self._process.poll() is None:
                os.killpg(self._process.pid, signal.SIGINT)
            self._process.communicate(timeout=STOP_S_MAX)
        shutil.rmtree(self.folder)

    @property
    def host(self) -> str:
        """The sidecar's host."""
        return str(urlsplit(self.url).hostname)

    @property
    def port(self) -> int:
        """The sidecar's port."""
        return urlsplit(self.url).port or 80

    @property
    def data(self) -> Path:
        """A folder on the disk that the core writes to."""
        return self.folder / ".sidegate" / "data"

    def pid(self, service: str) -> int:
        """Of one of its processes."""
        record = json.loads((self.folder / ".sidegate" / "run" / "up.json").read_bytes())
        return int(record["services"][service]["pid"])

    def command(self, *arguments: str) -> str:
        """The console command in the mesh's folder; what it printed."""
        done = subprocess.run(
            [sys.executable, "-m", "sidegate", *arguments],
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
            capture_output=True,
            text=True,
            check=True,
            timeout=READY_S_MAX,
        )
        return done.stdout

    def _ready(self) -> str:
        """Wait for the line that says so. It ends by itself where it cannot start."""
        if self._process is None or self._process.stdout is None:
            raise RuntimeError("the mesh was not started")
        for line in self._process.stdout:
            event = json.loads(line)
            if event["event"] == "ready":
                return str(event["url"])
        raise RuntimeError(f"the mesh did not start: {(self.folder / 'up.log').read_text()}")
