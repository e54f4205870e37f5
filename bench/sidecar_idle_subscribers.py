"""What subscribers cost that wait: a sidecar's memory with a thousand of them, and without.

python -m bench.sidecar_idle_subscribers [--subscribers 1000] [--idle 8] [--folder DIR]

The mesh as `make up` runs it. So many server-sent event streams of one topic are opened and left
alone for longer than a heartbeat; one message is published at the end, which every one of them
must get.
"""

import argparse
import json
import selectors
import socket
import sys
import time
import urllib.request
from pathlib import Path

from bench.development_mesh import DevelopmentMesh
from bench.process_memory import unshared_bytes
from bench.runner import RESULTS

TOPIC = "bench.quiet"
GROWTH_MB_MAX = 150.0
OPEN_S_MAX = 60.0
ARRIVE_S_MAX = 10.0


def subscribe(mesh: DevelopmentMesh) -> socket.socket:
    """one stream that is open: its head and first line have come."""
    stream = socket.create_connection((mesh.host, mesh.port), OPEN_S_MAX)
    stream.sendall(
        f"GET /subscribe/{TOPIC} HTTP/1.1\r\nHost: localhost\r\n"
        "Accept: text/event-stream\r\n\r\n".encode()
    )
    received = b""
    while b"retry: " not in received:
        data = stream.recv(65536)
        if not data:
            raise RuntimeError(f"not opened: {received!r}")
        received += data
    stream.setblocking(False)
    return stream


def publish(mesh: DevelopmentMesh, message: str) -> None:
    """One message."""
    document = json.dumps({"topic": TOPIC, "message": message}).encode()
    urllib.request.urlopen(f"{mesh.url}/publish", document, timeout=10).close()  # noqa: S310


def arrivals(streams: list[socket.socket], message: str) -> int:
    """How many of them get the message in time."""
    selector = selectors.DefaultSelector()
    for stream in streams:
        selector.register(stream, selectors.EVENT_READ)
    waiting, deadline = len(streams), time.monotonic() + ARRIVE_S_MAX
    while waiting and time.monotonic() < deadline:
        for key, _events in selector.select(0.1):
            if message.encode() in key.fileobj.recv(65536):  # type: ignore[union-attr]
                selector.unregister(key.fileobj)
                waiting -= 1
    return len(streams) - waiting


def main() -> int:
    """Measure and print; 1 if the limit is passed, or one is left without the message."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--subscribers", type=int, default=1000)
    parser.add_argument("--idle", type=float, default=8)
    parser.add_argument("--folder", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    with DevelopmentMesh(arguments.folder) as mesh:
        publish(mesh, "first")
        services = ("sidecar", "gatekeeper", "core")
        before = {name: unshared_bytes(mesh.pid(name)) for name in services}
        begin = time.monotonic()
        streams = [subscribe(mesh) for _ in range(arguments.subscribers)]
        opened_s = time.monotonic() - begin
        time.sleep(arguments.idle)
        growth = {
            name: (unshared_bytes(mesh.pid(name)) - size) / 1e6 for name, size in before.items()
        }
        publish(mesh, "to everybody")
        reached = arrivals(streams, "to everybody")
        for stream in streams:
            stream.close()
    fits = growth["sidecar"] <= GROWTH_MB_MAX
    print(f"{len(streams)} subscribers opened in {opened_s:.1f} s; {reached} got the message")
    for name, size in growth.items():
        print(f"{name}: {size:.1f} MB more")
    print(f"sidecar at most {GROWTH_MB_MAX:g} MB more: {'reached' if fits else 'SHORT'}")
    RESULTS.mkdir(parents=True, exist_ok=True)
    figures = {"subscribers": len(streams), "growth_mb": growth, "at_most_mb": GROWTH_MB_MAX}
    (RESULTS / "sidecar-idle-subscribers.json").write_text(json.dumps(figures, indent=2) + "\n")
    return 0 if fits and reached == len(streams) else 1


if __name__ == "__main__":
    sys.exit(main())
