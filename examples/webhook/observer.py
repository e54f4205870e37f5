"""A webhook subscriber in the Observer style: observer.py [TOPIC]

Registers its own URL for a topic, publishes three messages, prints each as it is called, and
deregisters. Standard library only.
"""

import json
import os
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from queue import Queue
from typing import Any
from urllib.request import ProxyHandler, Request, build_opener

SIDECAR = os.environ.get("SIDEGATE_URL", "http://localhost:9000")
CALL_S_MAX = 30.0

opener = build_opener(ProxyHandler({}))


def call(path: str, document: object) -> None:
    """POST to the sidecar; a refusal is raised."""
    data = json.dumps(document).encode()
    request = Request(SIDECAR + path, data, {"Content-Type": "application/json"})
    opener.open(request, timeout=CALL_S_MAX).close()


class Observer(HTTPServer):
    """An app that is called with each message: here it puts them into a queue."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.seen: Queue[dict[str, Any]] = Queue()
        self.url = f"http://127.0.0.1:{self.server_address[1]}/updates"


class _Handler(BaseHTTPRequestHandler):
    server: Observer

    def do_POST(self) -> None:
        """One message in its envelope, which says where it is from and who sent it."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.seen.put(json.loads(body))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """The messages are what is printed."""


def main() -> None:
    """The story."""
    topic = sys.argv[1] if len(sys.argv) > 1 else "weather"
    observer = Observer()
    threading.Thread(target=observer.serve_forever, daemon=True).start()
    subscriber = {"topic": topic, "url": observer.url, "method": "POST"}
    # Twice is as good as once: the same subscriber never gets a message twice.
    for _ in range(2):
        call("/register/subscriber", subscriber)
    for degrees in (19, 20, 21):
        call("/publish", {"topic": topic, "message": {"degrees": degrees}})
    for _ in range(3):
        update = observer.seen.get(timeout=CALL_S_MAX)
        place = f"{update['topic']} at {update['offset']}"
        print(f"called for {place}: {update['message']} by {update['principal']}")
    call("/deregister/subscriber", subscriber)
    print("nothing else came:", observer.seen.empty())


if __name__ == "__main__":
    main()
