"""Print a topic's messages as they come, one JSON object a line: subscribe.py TOPIC [FROM]

FROM is earliest, latest (the default), offset:N or time:2026-01-31T12:00:00Z. Standard library
only. When the connection breaks, it goes on behind the last message: none is lost or comes twice.
"""

import json
import os
import sys
import time
from collections.abc import Iterator
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote, urlencode
from urllib.request import ProxyHandler, Request, build_opener

SIDECAR = os.environ.get("SIDEGATE_URL", "http://localhost:9000")
SILENCE_S_MAX = 30.0
"""The sidecar sends a sign of life every few seconds; after this much silence it is gone."""
AGAIN_S = 1.0

# The sidecar is on this machine: no proxy must see what comes from there.
opener = build_opener(ProxyHandler({}))


def subscribe(topic: str, start: str = "latest") -> Iterator[dict[str, Any]]:
    """A topic's messages, for ever. HTTPError when the sidecar refuses them for good."""
    position: str | None = None
    url = f"{SIDECAR}/subscribe/{quote(topic, safe='')}?{urlencode({'from': start})}"
    while True:
        request = Request(url, headers={"Accept": "text/event-stream"})
        if position is not None:
            # Wins over `from`: go on where the last event was.
            request.add_header("Last-Event-ID", position)
        try:
            with opener.open(request, timeout=SILENCE_S_MAX) as events:
                for raw in events:
                    field, _, value = raw.decode().rstrip("\r\n").partition(": ")
                    if field == "id":
                        position = value
                    elif field == "data":
                        yield json.loads(value)
        except HTTPError as refusal:
            if refusal.code < 500:
                raise
            print(f"not now: {refusal}; trying again", file=sys.stderr)
        except (OSError, HTTPException) as error:
            print(f"the connection broke: {error}; trying again", file=sys.stderr)
        time.sleep(AGAIN_S)


def main() -> int:
    """The command."""
    if len(sys.argv) not in (2, 3):
        print(__doc__, file=sys.stderr)
        return 2
    try:
        for message in subscribe(*sys.argv[1:]):
            print(json.dumps(message), flush=True)
    except HTTPError as refusal:
        problem = json.load(refusal)
        print(f"{problem['title']}: {problem['detail']}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
