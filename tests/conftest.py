"""The whole mesh as real processes, started by the same code as `make up`, on free ports.

`mesh` is shared by all tests of a run: use topics of your own (`topic`), and leave every service
running. A test that needs a mesh for itself calls `start_mesh`.
"""

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from hypothesis import HealthCheck, settings

# How long an example takes says how busy the machine is, and nothing about the claim. What fails
# is printed with the line that plays it again.
settings.register_profile(
    "sidegate",
    settings.default,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    print_blob=True,
)
settings.load_profile("sidegate")

READY_S_MAX = 120.0
"""Four interpreters on a machine that runs tests on all of its cores."""
ANSWER_S_MAX = 60.0
SPANS_S_MAX = 60.0
"""The SDK sends spans every 5 s."""


def clean_environ(**more: str) -> dict[str, str]:
    """This process's environment without overrides that would reach the services."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SIDEGATE_")}
    return {**kept, **more}


class RunningMesh:
    """A `sidegate up` and the services that it started."""

    def __init__(
        self, state: Path, *options: str, environ: Mapping[str, str] | None = None
    ) -> None:
        self.state = state
        self.events: list[dict[str, Any]] = []
        self._news = threading.Condition()
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "sidegate", "up", "--json", "--state", str(state)]
            + (list(options) or ["--ports", "free"]),
            cwd=state.parent,
            env=clean_environ(**(environ or {})),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        self._errors = b""
        self._deaf = False
        self._threads = [
            threading.Thread(target=self._read_events),
            threading.Thread(target=self._read_errors),
        ]
        for thread in self._threads:
            thread.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def url(self) -> str:
        return str(self.record()["url"])

    def wait_for(self, kind: str, service: str | None = None, after: int = 0) -> dict[str, Any]:
        """The first event of `kind` at or after number `after`; fails when none comes."""

        def found() -> dict[str, Any] | None:
            for event in self.events[after:]:
                if event["event"] == kind and service in (None, event["service"]):
                    return event
            return None

        end = time.monotonic() + READY_S_MAX
        with self._news:
            while (event := found()) is None:
                ended = self._process.poll() is not None and not self._threads[0].is_alive()
                if ended or time.monotonic() > end:
                    texts = [event["text"][-300:] for event in self.events[-5:]]
                    pytest.fail(f"no {kind} of {service}: {texts} {self._errors!r}")
                self._news.wait(0.2)
        return event

    def record(self) -> dict[str, Any]:
        document: dict[str, Any] = json.loads((self.state / "run" / "up.json").read_bytes())
        return document

    def pid_of(self, service: str) -> int:
        return int(self.record()["services"][service]["pid"])

    def kill(self, service: str, number: signal.Signals = signal.SIGKILL) -> None:
        """End a service and wait until it runs again."""
        seen = len(self.events)
        os.kill(self.pid_of(service), number)
        self.wait_for("restarted", service, after=seen)

    def suspend(self, service: str) -> None:
        """Stop a service's clockwork: it keeps its sockets and answers nobody."""
        os.kill(self.pid_of(service), signal.SIGSTOP)

    def resume(self, service: str) -> None:
        """Let it go on."""
        os.kill(self.pid_of(service), signal.SIGCONT)

    def request(
        self,
        method: str,
        path: str,
        body: object = None,
        headers: Mapping[str, str] | None = None,
        *,
        url: str | None = None,
    ) -> tuple[int, Any, dict[str, str]]:
        """Ask the sidecar; status, body (JSON where it is JSON) and headers."""
        parts = urlsplit(url or self.url)
        connection = http.client.HTTPConnection(
            str(parts.hostname), parts.port, timeout=ANSWER_S_MAX
        )
        sent = dict(headers or {})
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
            sent.setdefault("Content-Type", "application/json")
        try:
            connection.request(method, path, body, sent)
            response = connection.getresponse()
            data: Any = response.read()
        finally:
            connection.close()
        with suppress(ValueError):
            data = json.loads(data)
        return response.status, data, {k.lower(): v for k, v in response.getheaders()}

    def publish(self, topic: str, message: object, query: str = "") -> tuple[int, Any]:
        status, document, _ = self.request(
            "POST", f"/publish{query}", {"topic": topic, "message": message}
        )
        return status, document

    def messages(self, topic: str, offset: int = 0) -> list[dict[str, Any]]:
        """All messages of partition 0 from `offset` on."""
        found: list[dict[str, Any]] = []
        while True:
            status, page, _ = self.request(
                "GET", f"/messages/{topic}?partition=0&offset={offset}&limit=1000"
            )
            assert status == 200, page
            if not page["messages"]:
                return found
            found += page["messages"]
            offset = page["next_offset"]

    def subscribe(self, topic: str, count: int, query: str = "from=earliest") -> list[Any]:
        """The first `count` messages of a subscription."""
        parts = urlsplit(self.url)
        connection = http.client.HTTPConnection(
            str(parts.hostname), parts.port, timeout=ANSWER_S_MAX
        )
        try:
            connection.request("GET", f"/subscribe/{topic}?{query}")
            response = connection.getresponse()
            assert response.status == 200, response.read()
            found: list[Any] = []
            while len(found) < count:
                line = response.readline()
                assert line, "the stream ended"
                if line.startswith(b"data:"):
                    found.append(json.loads(line[5:]))
            response.close()
            return found
        finally:
            connection.close()

    def stop_reading(self) -> None:
        """Close the other end of its standard output, as a closed terminal does."""
        assert self._process.stdout is not None
        self._deaf = True
        os.kill(self.pid_of("issuer"), signal.SIGTERM)
        self._threads[0].join()

    def interrupt(self, number: signal.Signals = signal.SIGINT) -> None:
        """What Ctrl-C does: the signal goes to the whole process group."""
        os.killpg(self._process.pid, number)

    def wait(self, seconds: float = 60.0) -> int:
        """Wait for the end; the exit code."""
        code = self._process.wait(seconds)
        for thread in self._threads:
            thread.join()
        return code

    def errors(self) -> str:
        return self._errors.decode()

    def close(self) -> None:
        """Stop it, whatever state it is in."""
        if self._process.poll() is None:
            self.interrupt()
        try:
            self.wait()
        except subprocess.TimeoutExpired:
            self._process.kill()
            self.wait()

    def _read_events(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                if self._deaf:
                    return
                with self._news:
                    self.events.append(json.loads(line))
                    self._news.notify_all()

    def _read_errors(self) -> None:
        assert self._process.stderr is not None
        with self._process.stderr as stream:
            self._errors = stream.read()


class Replica:
    """A further sidecar of the mesh's own app, with a place of its own on disk."""

    def __init__(self, mesh: RunningMesh, folder: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        self._config = mesh.state / "sidecar.yaml"
        addresses = mesh.record()["addresses"]
        self._environ = {
            **clean_environ(),
            **{name: value for name, value in addresses.items() if "_SIDECAR_" in name},
            "SIDEGATE_SIDECAR_LISTEN": f"127.0.0.1:{port}",
            "SIDEGATE_SIDECAR_TCP": "127.0.0.1:0",
            "SIDEGATE_SIDECAR_DATA": str(folder),
            "SIDEGATE_SIDECAR_LOG_LEVEL": "warning",
        }
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it; it may be under way for a while yet."""
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "sidegate", "sidecar", "--config", str(self._config)],
            env=self._environ,
            stdin=subprocess.DEVNULL,
        )

    def kill(self) -> None:
        """End it by SIGKILL, if it runs."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


class Collector:
    """Takes spans as an OpenTelemetry collector does."""

    def __init__(self) -> None:
        from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as wire

        received: list[tuple[str, Any]] = []
        news = threading.Condition()

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                data = self.rfile.read(int(self.headers["Content-Length"]))
                for resource in wire.ExportTraceServiceRequest.FromString(data).resource_spans:
                    name = resource.resource.attributes
                    service = next(a.value.string_value for a in name if a.key == "service.name")
                    for scope in resource.scope_spans:
                        with news:
                            received.extend((service, span) for span in scope.spans)
                            news.notify_all()
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Nothing on the terminal."""

        self.received = received
        self._news = news
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/v1/traces"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def wait_for(self, *names: tuple[str, str]) -> dict[tuple[str, str], Any]:
        """The spans of these services and names, once all have come."""
        end = time.monotonic() + SPANS_S_MAX
        with self._news:
            while True:
                found = {(service, span.name): span for service, span in self.received}
                if set(names) <= found.keys():
                    return found
                assert time.monotonic() < end, sorted(found)
                self._news.wait(0.5)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def collector() -> Iterator[Collector]:
    made = Collector()
    yield made
    made.close()


@pytest.fixture(scope="session")
def mesh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningMesh]:
    """One mesh for the whole run."""
    running = RunningMesh(tmp_path_factory.mktemp("mesh") / ".sidegate")
    try:
        running.wait_for("ready")
        yield running
    finally:
        running.close()


@pytest.fixture
def start_mesh(tmp_path: Path) -> Iterator[Callable[..., RunningMesh]]:
    """Starts meshes of the test's own, in one folder unless another is given."""
    with ExitStack() as stack:

        def start(
            *options: str, state: Path | None = None, environ: Mapping[str, str] | None = None
        ) -> RunningMesh:
            running = RunningMesh(state or tmp_path / ".sidegate", *options, environ=environ)
            stack.callback(running.close)
            return running

        yield start


@pytest.fixture
def replica_of(tmp_path: Path) -> Iterator[Callable[[RunningMesh], Replica]]:
    """`replica_of(mesh)` starts a further sidecar of the mesh's own app."""
    with ExitStack() as stack:
        numbers = count()

        def start(mesh: RunningMesh) -> Replica:
            replica = Replica(mesh, tmp_path / f"replica-{next(numbers)}")
            stack.callback(replica.kill)
            replica.start()
            return replica

        yield start


@pytest.fixture(scope="session")
def port_pair() -> Callable[[], int]:
    """Finds a free port whose successor is free too, as an added service's sidecar needs them."""

    def find() -> int:
        while True:
            with socket.create_server(("127.0.0.1", 0)) as one:
                port: int = one.getsockname()[1]
                with suppress(OSError), socket.create_server(("127.0.0.1", port + 1)):
                    return port

    return find


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A topic of the test's own."""
    return f"t{time.time_ns()}.{request.node.originalname[:60].replace('_', '-')}"
