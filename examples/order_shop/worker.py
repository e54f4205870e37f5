"""A worker of the shop: worker.py payment|inventory|email|analytics FOLDER

It takes messages of its topic as a member of a durable subscription of its own name, does its work,
and only then acknowledges: what it had in hand when it died comes again. So its work must bear a
repeat: it writes down what it has done, by the message's id. Standard library only.
"""

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import ProxyHandler, Request, build_opener

SIDECAR = os.environ.get("SIDEGATE_URL", "http://localhost:9000")
PREFIX = os.environ.get("SHOP_PREFIX", "shop")
"""Topics and subscriptions begin with it, so that several shops can run side by side."""
SILENCE_S_MAX = 30.0
AGAIN_S = 0.2

opener = build_opener(ProxyHandler({}))


def call(path: str, document: object) -> Any:
    """POST to the sidecar; a refusal for now is tried again, one for good is raised."""
    request = Request(
        SIDECAR + path, json.dumps(document).encode(), {"Content-Type": "application/json"}
    )
    while True:
        try:
            with opener.open(request, timeout=SILENCE_S_MAX) as answer:
                return json.load(answer)
        except HTTPError as refusal:
            if refusal.code not in (429, 503):
                raise
        except (OSError, HTTPException):
            pass
        time.sleep(AGAIN_S)


def publish(topic: str, message: object, key: str, ident: str) -> None:
    """Under an id that a repeat of the same work gives again: it is stored once."""
    call("/publish", {"topic": f"{PREFIX}.{topic}", "message": message, "key": key, "id": ident})


def messages(topic: str, name: str) -> Iterator[dict[str, Any]]:
    """The messages of a durable subscription, for ever, each acknowledged once it is worked on."""
    subscription = f"{PREFIX}.{name}"
    query = urlencode({"subscription": subscription, "from": "earliest", "ack": "manual"})
    request = Request(
        f"{SIDECAR}/subscribe/{PREFIX}.{topic}?{query}", headers={"Accept": "application/x-ndjson"}
    )
    while True:
        try:
            with opener.open(request, timeout=SILENCE_S_MAX) as lines:
                for line in lines:
                    message = json.loads(line)
                    if "topic" not in message:
                        break  # the stream's last words
                    yield message
                    place = {"partition": message["partition"], "offsets": [message["offset"]]}
                    call(f"/subscriptions/{subscription}/ack", place)
        except HTTPError as refusal:
            if refusal.code < 500:
                raise
        except (OSError, HTTPException):
            pass
        time.sleep(AGAIN_S)


class Done:
    """What this worker has done, in a file: one line for each message."""

    def __init__(self, file: Path) -> None:
        self._file = file.open("a+")
        self._file.seek(0)
        self._ids = {json.loads(line)["id"] for line in self._file}

    def __contains__(self, ident: str) -> bool:
        return ident in self._ids

    def add(self, ident: str, what: object) -> None:
        self._ids.add(ident)
        self._file.write(json.dumps({"id": ident, "did": what}) + "\n")
        self._file.flush()
        os.fsync(self._file.fileno())


def take_payment(order: dict[str, Any], ident: str) -> str:
    publish("payments", {**order, "paid": True}, str(order["order_id"]), f"paid-{ident}")
    return f"charged {order['total']} for order {order['order_id']}"


def reserve_stock(order: dict[str, Any], ident: str) -> str:
    publish("stock", {"sku": order["sku"], "taken": 1}, str(order["sku"]), f"taken-{ident}")
    return f"took one {order['sku']} off the shelf"


def send_mail(payment: dict[str, Any], ident: str) -> str:
    del ident
    return f"mail to {payment['customer']}: thank you for order {payment['order_id']}"


def count_sale(payment: dict[str, Any], ident: str) -> float:
    del ident
    return float(payment["total"])


WORKERS: dict[str, tuple[str, Callable[[dict[str, Any], str], object]]] = {
    "payment": ("orders", take_payment),
    "inventory": ("orders", reserve_stock),
    "email": ("payments", send_mail),
    "analytics": ("payments", count_sale),
}


def main() -> int:
    """The command."""
    if len(sys.argv) != 3 or sys.argv[1] not in WORKERS:
        print(__doc__, file=sys.stderr)
        return 2
    name, folder = sys.argv[1], Path(sys.argv[2])
    topic, work = WORKERS[name]
    done = Done(folder / f"{name}.jsonl")
    for message in messages(topic, name):
        if message["id"] not in done:
            done.add(message["id"], work(message["message"], message["id"]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
