"""The order shop: demo.py [ORDERS]

Takes orders while four workers carry them out, kills the email worker in the middle, and shows that
no order failed and that every mail went out once it was back.
"""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import worker

FOLDER = Path(__file__).parent
WAIT_S_MAX = 60.0


def start(name: str, folder: Path) -> "subprocess.Popen[bytes]":
    return subprocess.Popen([sys.executable, FOLDER / "worker.py", name, folder])


def done(name: str, folder: Path) -> list[str]:
    """The ids of what a worker has done so far."""
    file = folder / f"{name}.jsonl"
    if not file.exists():
        return []
    return [json.loads(line)["id"] for line in file.read_text().splitlines()]


def wait_for(name: str, count: int, folder: Path) -> None:
    end = time.monotonic() + WAIT_S_MAX
    while len(done(name, folder)) < count:
        if time.monotonic() > end:
            sys.exit(f"{name} has done {len(done(name, folder))} of {count} in {WAIT_S_MAX:.0f} s")
        time.sleep(0.05)


def order(number: int) -> None:
    """What the web shop does for a customer: one call to its own machine, never more."""
    message = {
        "order_id": number,
        "sku": f"book-{number % 3}",
        "customer": f"customer{number}@example.org",
        "total": 12.5,
    }
    worker.publish("orders", message, str(number), f"order-{number}")


def main() -> None:
    """The story."""
    orders = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        workers = {each: start(each, folder) for each in worker.WORKERS}
        try:
            for number in range(orders // 2):
                order(number)
            wait_for("email", orders // 4, folder)
            workers["email"].kill()
            workers["email"].wait()
            print(f"The email worker was killed after {len(done('email', folder))} mails.")
            for number in range(orders // 2, orders):
                order(number)
            wait_for("payment", orders, folder)
            print(f"All {orders} orders were taken and paid meanwhile: no order failed.")
            workers["email"] = start("email", folder)
            for each in worker.WORKERS:
                wait_for(each, orders, folder)
            for each in worker.WORKERS:
                ids = done(each, folder)
                print(
                    f"{each:10} did {len(ids)} of {orders}, each once: {len(set(ids)) == len(ids)}"
                )
        finally:
            for process in workers.values():
                process.kill()
                process.wait()


if __name__ == "__main__":
    main()
