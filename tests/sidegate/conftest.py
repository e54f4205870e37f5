"""A peer that speaks HTTP with canned answers, the console command in a process of its own, and
services that are added to a mesh, with their sidecars."""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest


@dataclass(frozen=True)
class Asked:
    """One request that the peer got."""

    method: str
    path: str
    body: bytes
    headers: Mapping[str, str]

    @property
    def document(self) -> Any:
        return json.loads(self.body)


@dataclass
class Peer:
    """Answers by `method path` from a table, with 404 for the rest; keeps what it was asked."""

    url: str
    answers: dict[str, tuple[int, bytes]] = field(default_factory=dict)
    asked: list[Asked] = field(default_factory=list)
    stream: bytes = b""

    def answer(self, request: str, status: int, document: object) -> None:
        self.answers[request] = (status, json.dumps(document).encode())


@pytest.fixture
def peer() -> Iterator[Peer]:
    found: Peer

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_one_request(self) -> None:
            try:
                super().handle_one_request()
            except ConnectionError:
                self.close_connection = True

        def do_GET(self) -> None:
            self._answer()

        do_POST = do_PUT = do_PATCH = do_DELETE = do_GET  # noqa: N815

        def _answer(self) -> None:
            length = int(self.headers.get("Content-Length", 0))
            asked = Asked(self.command, self.path, self.rfile.read(length), dict(self.headers))
            found.asked.append(asked)
            if asked.headers.get("Accept") == "text/event-stream" and found.stream:
                self.send_response(200)
                self.send_header("Content-Type", "text/event-stream")
                self.end_headers()
                self.wfile.write(found.stream)
                self.close_connection = True
                return
            problem = {"title": "Not found", "status": 404, "detail": f"nothing at {self.path}"}
            status, body = found.answers.get(
                f"{self.command} {self.path.partition('?')[0]}", (404, json.dumps(problem).encode())
            )
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    found = Peer(f"http://127.0.0.1:{server.server_port}")
    thread.start()
    yield found
    server.shutdown()
    thread.join()
    server.server_close()


@dataclass(frozen=True)
class Command:
    """The console command, run in a folder of its own."""

    folder: Path

    def __call__(
        self, *arguments: str, stdin: str = "", environ: Mapping[str, str] | None = None
    ) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [sys.executable, "-P", "-m", "sidegate", *arguments],
            cwd=self.folder,
            input=stdin,
            env=environ,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )


@pytest.fixture
def command(tmp_path: Path) -> Command:
    return Command(tmp_path)


CONNECTED_S_MAX = 60.0
"""An interpreter and a token, on a machine that runs tests on all of its cores."""


@dataclass(frozen=True)
class Service:
    """A service that was added to a mesh, and its running sidecar."""

    name: str
    url: str
    mesh: Any

    def request(self, method: str, path: str, body: object = None) -> tuple[int, Any]:
        """Ask its sidecar."""
        status, document, _ = self.mesh.request(method, path, body, url=self.url)
        return status, document

    def publish(self, topic: str, message: object, query: str = "") -> tuple[int, Any]:
        return self.request("POST", f"/publish{query}", {"topic": topic, "message": message})

    def until(self, seen: Callable[[], bool], seconds: float = CONNECTED_S_MAX) -> float:
        """Wait for something that other processes do; how long it took."""
        began = time.monotonic()
        while not seen():
            assert time.monotonic() - began < seconds, self.request("GET", "/status")
            time.sleep(0.02)
        return time.monotonic() - began


def _is_connected(service: Service) -> bool:
    try:
        return bool(service.request("GET", "/status")[1]["uplink"] == "connected")
    except OSError:
        return False


def _start_sidecar(stack: ExitStack, mesh: Any, name: str) -> None:
    log = stack.enter_context((mesh.state.parent / f"{name}.log").open("ab"))
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "sidegate", "sidecar", "--config", f".sidegate/{name}.yaml"],
        cwd=mesh.state.parent,
        stdin=subprocess.DEVNULL,
        stderr=log,
    )
    stack.callback(process.wait, 60)
    stack.callback(process.terminate)


@pytest.fixture
def add_service(port_pair: Callable[[], int]) -> Iterator[Callable[..., Service]]:
    """`add_service(mesh, "payments", …)` adds a service and starts its sidecar."""
    with ExitStack() as stack:

        def add(mesh: Any, name: str, *options: str) -> Service:
            port = port_pair()
            command = Command(mesh.state.parent)
            done = command("service", "add", name, "--port", str(port), "--json", *options)
            assert done.returncode == 0, done.stderr
            service = Service(name, json.loads(done.stdout)["url"], mesh)
            _start_sidecar(stack, mesh, name)
            service.until(lambda: _is_connected(service))
            return service

        yield add


@pytest.fixture
def in_mesh(mesh: Any) -> Command:
    """The console command in the folder of the shared mesh."""
    return Command(mesh.state.parent)


def _load_signed_log() -> Any:
    spec = spec_from_file_location("signed_log", Path(__file__).with_name("signed_log.py"))
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


_signed_log = _load_signed_log()


@pytest.fixture
def signed_log(tmp_path: Path) -> Any:
    """A log with its tree and checkpoints; nothing of it is written yet."""
    return _signed_log.SignedLog(tmp_path)
