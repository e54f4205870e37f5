"""Redis Streams as a peer: `XADD` 64 deep, synced at every write, in a process of its own."""

import re
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path

DEPTH = 64
_RATE = re.compile(r"(\d+(?:\.\d+)?) requests per second")


def missing() -> str | None:
    """Why there is no Redis here, if so."""
    for program in ("redis-server", "redis-benchmark"):
        if shutil.which(program) is None:
            return f"{program} is not installed (Debian: redis-server and redis-tools)"
    return None


class RedisStreams:
    """A Redis with `appendfsync always`; its data on the disk of `parent`."""

    name = "Redis XADD"

    def __init__(self, parent: Path, message: bytes, messages: int) -> None:
        self._parent = parent
        self._message = message
        self._messages = messages
        self._rounds = 0

    def __enter__(self) -> "RedisStreams":
        self._parent.mkdir(parents=True, exist_ok=True)
        self._folder = Path(tempfile.mkdtemp(prefix="redis-bench-", dir=self._parent))
        with socket.create_server(("127.0.0.1", 0)) as free:
            self._port = free.getsockname()[1]
        settings = {
            "port": self._port,
            "bind": "127.0.0.1",
            "dir": self._folder,
            "appendonly": "yes",
            "appendfsync": "always",
            "save": "",
            "daemonize": "no",
        }
        options = [text for name, value in settings.items() for text in (f"--{name}", str(value))]
        self._process = subprocess.Popen(["redis-server", *options], stdout=subprocess.DEVNULL)
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            try:
                socket.create_connection(("127.0.0.1", self._port), 1).close()
            except OSError:
                time.sleep(0.05)
            else:
                return self
        raise RuntimeError("redis-server did not start")

    def __exit__(self, *error: object) -> None:
        self._process.terminate()
        self._process.wait(10)
        shutil.rmtree(self._folder)

    def run(self) -> float:
        """Messages a second to a stream of this round's own, each synced before its answer."""
        self._rounds += 1
        options = ["-p", str(self._port), "-c", "1", "-P", str(DEPTH), "-q"]
        command = ["XADD", f"bench-{self._rounds}", "*", "m", self._message.decode()]
        done = subprocess.run(
            ["redis-benchmark", *options, "-n", str(self._messages), *command],
            capture_output=True,
            text=True,
            check=True,
        )
        rates = _RATE.findall(done.stdout)
        if not rates:
            raise RuntimeError(f"redis-benchmark said {done.stdout[-300:]!r}")
        return float(rates[-1])
