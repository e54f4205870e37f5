"""A real core in a process of its own, and the gatekeeper's identity to speak to it with."""

import http.client
import os
import shutil
import ssl
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import TracebackType

import yaml

from bench.lean_http import LeanConnection
from hosting.units import Address
from sidegate.development import addresses, ca
from sidegate.development.state import State

READY_S_MAX = 60.0
"""A core that opens a 10 GB log after a kill reads it; nothing here takes longer."""
STOP_S_MAX = 30.0


class CoreProcess:
    """A core with a data folder on the disk of `parent`. Made anew on entering, gone on leaving."""

    def __init__(self, parent: Path, *, unix: bool = False) -> None:
        self._parent = parent
        self._unix = unix
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> "CoreProcess":
        self._parent.mkdir(parents=True, exist_ok=True)
        self.folder = Path(tempfile.mkdtemp(prefix="sidegate-bench-", dir=self._parent))
        self.state = State(self.folder)
        self.where = addresses.free_addresses()
        self.state.make_folders()
        self.state.make_keys()
        self.state.make_certificates(ca.utc_now())
        self.state.make_documents(self.where)
        if self._unix:
            self._listen_on_socket()
        self.start()
        return self

    def start(self) -> float:
        """Start the process and wait until it is ready; how long that took, in seconds."""
        begin = time.monotonic()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "sidegate", "core", "--config", str(self.state.config("core"))],
            stdout=subprocess.DEVNULL,
            stderr=(self.folder / "core.log").open("ab"),
        )
        while time.monotonic() < begin + READY_S_MAX:
            if self._process.poll() is not None:
                break
            if self._is_ready():
                return time.monotonic() - begin
            time.sleep(0.02)
        raise RuntimeError(f"the core did not start: {(self.folder / 'core.log').read_text()}")

    def _listen_on_socket(self) -> None:
        config = self.state.config("core")
        settings = yaml.safe_load(config.read_text())
        settings["listen"] = f"unix:{self.socket_path}"
        settings["admit_uids"] = [os.getuid()]
        del settings["tls"], settings["admit"]
        config.write_text(yaml.safe_dump(settings))

    @property
    def socket_path(self) -> Path:
        """Where a core with `unix` listens."""
        return self.folder / "core.sock"

    def stop(self) -> None:
        """Stop the process as an operator would."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(STOP_S_MAX)

    @property
    def pid(self) -> int:
        """The process to look at for its memory."""
        if self._process is None:
            raise RuntimeError("not started")
        return self._process.pid

    @property
    def url(self) -> str:
        """Where its API is."""
        return f"https://{self.address(addresses.CORE)}"

    def address(self, listener: addresses.Listener) -> Address:
        """Where one of its listeners is."""
        return self.where[listener]

    async def connect(self) -> LeanConnection:
        """A connection to its API, over mTLS or its Unix socket."""
        if self._unix:
            return await LeanConnection.open("", 0, None, self.socket_path)
        address = self.address(addresses.CORE)
        return await LeanConnection.open(address.host, address.port, self.client_tls())

    def client_tls(self) -> ssl.SSLContext:
        """TLS as a gatekeeper."""
        context = ssl.create_default_context(cafile=str(self.state.ca))
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        certificates = self.folder / "certs"
        context.load_cert_chain(certificates / "gatekeeper.pem", certificates / "gatekeeper.key")
        return context

    def _is_ready(self) -> bool:
        health = self.address(addresses.CORE_HEALTH)
        connection = http.client.HTTPConnection(health.host, health.port, timeout=1)
        try:
            connection.request("GET", "/readyz")
            return connection.getresponse().status == 200
        except OSError:
            return False
        finally:
            connection.close()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
        shutil.rmtree(self.folder)
