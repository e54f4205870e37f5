"""Pushes of a real mesh, while everything around them fails: nothing is lost, order holds.

Sidecars, gatekeeper and core are killed -9; the app answers 500, hangs, resets and sends a
gigabyte back. Every message arrives at least once, messages of a key arrive in order, and what
comes again is counted and bounded.
"""

import json
import random
import signal
import socket
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

END_S_MAX = 90.0
KEYS = 8


class Worker:
    """An app with a webhook that can be taken away and brought back. `behave` may misbehave."""

    def __init__(self) -> None:
        self.taken: list[dict[str, Any]] = []
        self.seen = 0
        self.behave: Callable[[BaseHTTPRequestHandler, dict[str, Any]], bool] = lambda *_: True
        self._lock = threading.Lock()
        self._connections: list[socket.socket] = []
        self._server: ThreadingHTTPServer | None = None
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"

    def start(self) -> None:
        worker = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self) -> None:
                super().setup()
                worker._connections.append(self.connection)

            def handle_one_request(self) -> None:
                try:
                    super().handle_one_request()
                except (OSError, ValueError):
                    self.close_connection = True

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                with worker._lock:
                    worker.seen += 1
                if not worker.behave(self, body):
                    return
                with worker._lock:
                    worker.taken.append(body)
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                """The test's own counts are enough."""

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 64

        self._server = Server(("127.0.0.1", self.port), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def stop(self) -> None:
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None
        for connection in self._connections:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self._connections.clear()

    def messages(self) -> list[Any]:
        with self._lock:
            return [each["message"] for each in self.taken]

    def until(self, done: Callable[[], bool], what: Callable[[], object]) -> None:
        end = time.monotonic() + END_S_MAX
        while not done():
            assert time.monotonic() < end, what()
            time.sleep(0.05)


class Gate:
    """Answers 500 to every try up to `failing`, and lets later ones wait until that is raised."""

    def __init__(self, failing: int) -> None:
        self._failing = failing
        self._tries: Counter[int] = Counter()
        self._news = threading.Condition()

    def __call__(self, handler: BaseHTTPRequestHandler, body: dict[str, Any]) -> bool:
        number, attempt = body["message"][1], int(handler.headers["Sidegate-Attempt"])
        with self._news:
            self._tries[number] = max(self._tries[number], attempt)
            self._news.notify_all()
            self._news.wait_for(lambda: attempt <= self._failing)
        handler.send_error(500)
        return False

    def fail(self, failing: int) -> None:
        """Let all tries up to this one fail."""
        with self._news:
            self._failing = failing
            self._news.notify_all()

    def wait_for(self, attempt: int, messages: int) -> None:
        """Return once all messages have come to this try."""

        def arrived() -> bool:
            return sum(each >= attempt for each in self._tries.values()) == messages

        with self._news:
            assert self._news.wait_for(arrived, END_S_MAX), self._tries


@pytest.fixture
def worker() -> Iterator[Worker]:
    made = Worker()
    made.start()
    yield made
    made.stop()


@pytest.fixture(scope="module")
def fragile(mesh: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A mesh of this file's own, whose services may be killed."""
    running = type(mesh)(tmp_path_factory.mktemp("fragile") / ".sidegate")
    try:
        running.wait_for("ready")
        yield running
    finally:
        running.close()


def subscribe(mesh: Any, worker: Worker, topic: str, **changes: Any) -> str:
    name = f"push-{time.time_ns()}"
    wanted = {
        "name": name,
        "topic": topic,
        "push": {"url": worker.url, "timeout_ms": 1000},
        "retry": {"first_ms": 20, "max_ms": 200, "max_attempts": None, "unreachable": "wait"},
        **changes,
    }
    status, document, _ = mesh.request("POST", "/subscriptions", wanted)
    assert status == 201, document
    return name


def patient(worker: Worker) -> dict[str, Any]:
    """A push that is never tried again only because the machine was busy."""
    return {"url": worker.url, "timeout_ms": 60_000}


def publish(mesh: Any, topic: str, count: int, begin: int = 0) -> None:
    lines = [
        json.dumps({"message": [n % KEYS, n], "key": str(n % KEYS)}) for n in range(begin, count)
    ]
    for at in range(0, len(lines), 50):
        body = "\n".join(lines[at : at + 50]).encode()
        status, document, _ = mesh.request("POST", f"/publish/{topic}/batch", body)
        assert status in (200, 202), document


def judge(worker: Worker, count: int, *, ordered: bool = True) -> int:
    """Everything came, in order within a key; how many came again."""
    found = [tuple(each) for each in worker.messages()]
    assert set(found) == {(n % KEYS, n) for n in range(count)}
    if not ordered:
        return len(found) - count
    first: dict[int, list[int]] = {}
    for key, number in dict.fromkeys(found):
        first.setdefault(key, []).append(number)
    for key, numbers in first.items():
        assert numbers == sorted(numbers), f"key {key} came out of order"
    return len(found) - count


def misbehave(chance: random.Random) -> Callable[[BaseHTTPRequestHandler, Any], bool]:
    """Fails about every fifth request, in one way or another, after which it is tried again."""

    def behave(handler: BaseHTTPRequestHandler, _: Any) -> bool:
        what = chance.random()
        if what < 0.08:
            handler.send_error(500)
            return False
        if what < 0.12:
            linger = b"\1\0\0\0\0\0\0\0"
            handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            handler.connection.close()
            handler.close_connection = True
            return False
        if what < 0.13:
            time.sleep(1.5)
            handler.close_connection = True
            return False
        return True

    return behave


def survive(
    mesh: Any,
    replica_of: Callable[[Any], Any],
    worker: Worker,
    topic: str,
    rounds: int,
    seed: int,
    mode: str = "ordered",
) -> None:
    chance = random.Random(seed)
    mesh.request("POST", "/topics", {"name": topic, "partitions": 4})
    worker.behave = misbehave(chance)
    name = subscribe(mesh, worker, topic, **{"from": "earliest", "mode": mode})
    replicas = [replica_of(mesh) for _ in range(2)]
    count, kills = 0, 0
    for _ in range(rounds):
        publish(mesh, topic, count + 100, count)
        count += 100
        time.sleep(chance.uniform(0.2, 1.0))
        what = chance.choice(["replica", "replica", "sidecar", "gatekeeper", "core"])
        kills += 1
        if what == "replica":
            replica = chance.choice(replicas)
            replica.kill()
            replica.start()
        else:
            mesh.kill(what)
    wanted = {(n % KEYS, n) for n in range(count)}
    worker.until(
        lambda: wanted <= {tuple(each) for each in worker.messages()},
        lambda: mesh.request("GET", f"/subscriptions/{name}")[:2],
    )
    again = judge(worker, count, ordered=mode == "ordered")
    # What one member holds of 100 messages is at most what each kill makes come again.
    assert again <= kills * 100, again
    worker.until(
        lambda: mesh.request("GET", f"/subscriptions/{name}")[1].get("lag") == 0,
        lambda: mesh.request("GET", f"/subscriptions/{name}")[:2],
    )


def test_killed_at_random_every_message_arrives_and_in_order(
    fragile: Any, replica_of: Callable[[Any], Any], worker: Worker, topic: str
) -> None:
    survive(fragile, replica_of, worker, topic, rounds=3, seed=1)


@pytest.mark.long
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("mode", ["ordered", "fcfs"])
def test_killed_at_random_for_minutes(
    fragile: Any,
    replica_of: Callable[[Any], Any],
    worker: Worker,
    topic: str,
    seed: int,
    mode: str,
) -> None:
    survive(fragile, replica_of, worker, topic, rounds=40, seed=seed, mode=mode)


def forget(mesh: Any, worker: Worker, topic: str, rounds: int, seed: int) -> None:
    chance = random.Random(seed)
    wanted = {"topic": topic, "url": worker.url}
    for expected in (201, 200):
        status, document, _ = mesh.request("POST", "/register/subscriber", wanted)
        assert status == expected, document
    name = document["subscriber_id"]
    count = 0
    for _ in range(rounds):
        publish(mesh, topic, count + 50, count)
        count += 50
        time.sleep(chance.uniform(0.0, 0.3))
        mesh.kill(chance.choice(["sidecar", "gatekeeper", "core"]))
    publish(mesh, topic, count + 1, count)
    worker.until(
        lambda: [count % KEYS, count] in worker.messages(),
        lambda: mesh.request("GET", f"/subscriptions/{name}")[:2],
    )
    times = Counter(tuple(each) for each in worker.messages())
    assert max(times.values()) == 1
    # What was in one's hands when it was killed may be lost; what came after must not be.
    assert len(times) > count / 3


def test_a_registered_webhook_never_gets_a_message_twice(
    fragile: Any, worker: Worker, topic: str
) -> None:
    forget(fragile, worker, topic, rounds=1, seed=1)


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(3))
def test_a_registered_webhook_never_gets_a_message_twice_for_minutes(
    fragile: Any, worker: Worker, topic: str, seed: int
) -> None:
    forget(fragile, worker, topic, rounds=25, seed=seed)


def test_an_order_never_fails_and_every_mail_goes_out_once_the_worker_is_back(
    mesh: Any, worker: Worker, topic: str
) -> None:
    """The order shop's promise."""
    status, document, _ = mesh.request(
        "POST", "/subscriptions", {"name": topic, "topic": topic, "push": {"url": worker.url}}
    )
    assert status == 201, document
    mesh.publish(topic, {"order": 0})
    # The worker notes a message before it answers: what it takes away must not be the answer.
    worker.until(
        lambda: mesh.request("GET", f"/subscriptions/{topic}")[1]["delivery"]["delivered"] == 1,
        worker.messages,
    )
    worker.stop()
    for number in range(1, 41):
        status, placed = mesh.publish(topic, {"order": number})
        assert (status, placed["durability"]) == (200, "committed")
    worker.until(
        lambda: (
            mesh.request("GET", f"/subscriptions/{topic}")[1]["delivery"]["state"] == "unreachable"
        ),
        lambda: mesh.request("GET", f"/subscriptions/{topic}")[1],
    )
    time.sleep(1.0)
    worker.start()
    worker.until(lambda: len(worker.messages()) >= 41, worker.messages)
    mails = Counter(each["order"] for each in worker.messages())
    assert mails == dict.fromkeys(range(41), 1)
    state = mesh.request("GET", f"/subscriptions/{topic}")[1]
    assert state["delivery"]["dead_lettered"] == 0


def test_replicas_share_so_that_each_message_goes_out_once(
    mesh: Any, replica_of: Callable[[Any], Any], worker: Worker, topic: str
) -> None:
    mesh.request("POST", "/topics", {"name": topic, "partitions": 4})
    name = subscribe(mesh, worker, topic, push=patient(worker))
    replica_of(mesh)

    def members() -> list[Any]:
        found: list[Any] = mesh.request("GET", f"/subscriptions/{name}")[1]["members"]
        return [each for each in found if each["partitions"]]

    worker.until(lambda: len(members()) == 2, members)
    publish(mesh, topic, 200)
    worker.until(lambda: len(worker.messages()) >= 200, lambda: len(worker.messages()))
    worker.until(
        lambda: mesh.request("GET", f"/subscriptions/{name}")[1]["lag"] == 0,
        lambda: mesh.request("GET", f"/subscriptions/{name}")[1],
    )
    assert judge(worker, 200) == 0


def test_a_dead_letter_has_every_try_whoever_was_killed_meanwhile(
    fragile: Any, replica_of: Callable[[Any], Any], worker: Worker, topic: str
) -> None:
    fragile.request("POST", "/topics", {"name": topic, "partitions": 2})
    worker.behave = gate = Gate(failing=2)
    retry = {"first_ms": 20, "max_ms": 50, "max_attempts": 10}
    name = subscribe(fragile, worker, topic, push=patient(worker), retry=retry)
    replica = replica_of(fragile)

    def state() -> Any:
        return fragile.request("GET", f"/subscriptions/{name}")[1]

    worker.until(
        lambda: [len(each["partitions"]) for each in state().get("members", ())] == [1, 1], state
    )
    publish(fragile, topic, KEYS)
    gate.wait_for(3, KEYS)
    worker.until(
        lambda: [n for each in state()["cursors"] for n in each["attempts"].values()] == [2] * KEYS,
        state,
    )
    assert all(each["in_flight"] for each in state()["members"]), "both have failed twice"
    replica.kill()
    gate.fail(4)
    gate.wait_for(5, KEYS)
    fragile.kill("core")
    gate.fail(6)
    gate.wait_for(7, KEYS)
    fragile.kill("sidecar")
    gate.fail(100)
    worker.until(lambda: state().get("lag") == 0, state)
    letters = [
        json.loads(each["headers"]["sidegate-dead-history"])
        for each in fragile.messages(f"{topic}.dead")
    ]
    assert len(letters) == KEYS
    for tries in letters:
        assert [each["attempt"] for each in tries] == list(range(1, 11))
        assert [each["at_us"] for each in tries] == sorted(each["at_us"] for each in tries)
        assert [each["status"] for each in tries[:2]] == [500, 500]
        for each in tries:
            assert ("500" if each["status"] else "was not told") in each["error"]
    lost = [tries[2] for tries in letters if tries[2]["status"] is None]
    assert 0 < len(lost) < KEYS, "the third try of those that the replica held"


def test_an_app_that_sends_a_gigabyte_back_costs_no_memory(
    mesh: Any, worker: Worker, topic: str
) -> None:
    def flood(handler: BaseHTTPRequestHandler, _: Any) -> bool:
        handler.close_connection = True
        handler.send_response(200)
        handler.send_header("Content-Length", str(1 << 30))
        handler.end_headers()
        chunk = bytes(1 << 20)
        try:
            for _ in range(1024):
                handler.wfile.write(chunk)
        except OSError:
            return False
        return False

    worker.behave = flood
    name = subscribe(mesh, worker, topic, push=patient(worker))
    before = resident_bytes(mesh.pid_of("sidecar"))
    for number in range(10):
        mesh.publish(topic, number)
    worker.until(
        lambda: mesh.request("GET", f"/subscriptions/{name}")[1]["delivery"]["delivered"] == 10,
        lambda: mesh.request("GET", f"/subscriptions/{name}")[1],
    )
    assert worker.seen == 10
    assert resident_bytes(mesh.pid_of("sidecar")) - before < 64 << 20


def resident_bytes(pid: int) -> int:
    listed = subprocess.run(
        ["ps", "-o", "rss=", "-p", str(pid)], capture_output=True, text=True, check=True
    )
    return int(listed.stdout) * 1024


def test_a_stopped_sidecar_hands_over_what_it_held(
    fragile: Any, worker: Worker, topic: str
) -> None:
    subscribe(fragile, worker, topic, push=patient(worker), **{"from": "earliest"})
    publish(fragile, topic, 100)
    fragile.kill("sidecar", signal.SIGTERM)
    worker.until(
        lambda: len({tuple(each) for each in worker.messages()}) == 100,
        lambda: len(worker.messages()),
    )
    # What was under way when it was told to stop was delivered and acknowledged.
    assert judge(worker, 100) == 0
