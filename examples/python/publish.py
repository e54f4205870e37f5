"""Publish a message through the local sidecar: publish.py TOPIC MESSAGE

MESSAGE is JSON, or text if it is not. Standard library only: certificates, tokens, batches, retries
towards the log and the spool are the sidecar's business.
"""

import json
import os
import sys
import time
import uuid
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import ProxyHandler, Request, build_opener

SIDECAR = os.environ.get("SIDEGATE_URL", "http://localhost:9000")
TIMEOUT_S = 35.0
"""A little more than the 30 s within which the sidecar itself answers."""
TRIES = 5
TRY_AGAIN = {429, 503}
"""Over the quota, or nothing can be taken now. Retry-After says how long to wait."""

# The sidecar is on this machine: no proxy must see what goes there.
opener = build_opener(ProxyHandler({}))


def publish(topic: str, message: Any, key: str | None = None) -> dict[str, Any]:
    """Publish, and return where the message is now.

    All tries have one id, so that the message is published once, however often it is sent.
    """
    envelope = {"topic": topic, "message": message, "key": key, "id": str(uuid.uuid4())}
    body = json.dumps(envelope).encode()
    request = Request(f"{SIDECAR}/publish", body, {"Content-Type": "application/json"})
    for left in range(TRIES - 1, -1, -1):
        try:
            with opener.open(request, timeout=TIMEOUT_S) as answer:
                placed: dict[str, Any] = json.load(answer)
                return placed
        except HTTPError as refusal:
            if refusal.code not in TRY_AGAIN or not left:
                raise
            time.sleep(float(refusal.headers.get("Retry-After", 1)))
    raise AssertionError("the loop ends by return or raise")


def main() -> int:
    """The command."""
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    topic, text = sys.argv[1:]
    try:
        message = json.loads(text)
    except ValueError:
        message = text
    try:
        print(json.dumps(publish(topic, message)))
    except HTTPError as refusal:
        # Every refusal says what is wrong: application/problem+json, RFC 9457.
        problem = json.load(refusal)
        decision = f" (decision {problem['decision_id']})" if "decision_id" in problem else ""
        print(f"{problem['title']}: {problem['detail']}{decision}", file=sys.stderr)
        return 1
    except URLError as error:
        print(f"no sidecar answers at {SIDECAR}: {error.reason}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
