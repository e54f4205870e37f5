"""A small HTTP client for a local sidecar and for health pages, on the standard library alone.

Commands that only ask a question must start fast, so this may import neither aiohttp nor anything
of the services. It knows HTTP, problem+json and server-sent events, and no command.
"""

from __future__ import annotations

import http.client
import json
import ssl
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

# Everything asked here is on this machine; what takes longer hangs.
TIMEOUT_S = 30.0
# Servers of this project close a connection after 15 s of silence at most.
IDLE_S_MAX = 5.0
# An answer of a local service is small; a page of messages is the largest.
ANSWER_BYTES_MAX = 64 * 1024 * 1024
# One server-sent event: a message of 1 MiB, escaped at worst sixfold, with its envelope.
EVENT_LINE_BYTES_MAX = 8 * 1024 * 1024


class Unreachable(Exception):
    """Nothing answers there, or what answers does not speak HTTP."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole HTTP answer."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300

    def document(self) -> Any:
        """The body as JSON, or None where it is none."""
        try:
            return json.loads(self.body)
        except ValueError:
            return None

    def problem(self) -> str:
        """What went wrong, in one line, from problem+json where there is one."""
        document = self.document()
        if isinstance(document, dict) and "title" in document:
            detail = document.get("detail")
            text = f"{document['title']}: {detail}" if detail else str(document["title"])
            decision = document.get("decision_id")
            return f"{text} (decision {decision})" if decision else text
        return f"HTTP status {self.status}"


@dataclass(frozen=True, slots=True)
class Event:
    """One server-sent event."""

    id: str | None
    name: str | None
    data: str


class Connection:
    """One keep-alive connection to `url`; not thread-safe.

    A connection that lay idle is opened anew: the server may be closing it this very moment, and
    a request that meets the close can't be told from one that was carried out.
    """

    def __init__(
        self,
        url: str,
        *,
        timeout_s: float = TIMEOUT_S,
        tls: ssl.SSLContext | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """`headers` go with every request."""
        self.url = url.rstrip("/")
        self._headers = dict(headers or {})
        parts = urlsplit(self.url)
        if parts.hostname is None or parts.scheme not in {"http", "https"}:
            raise Unreachable(
                f"{url!r} is no http:// or https:// address; write one such as "
                "http://localhost:9000"
            )
        self._prefix = parts.path
        self._used_s = 0.0
        self._http: http.client.HTTPConnection
        if parts.scheme == "https":
            self._http = http.client.HTTPSConnection(
                parts.hostname, parts.port, timeout=timeout_s, context=tls
            )
        else:
            self._http = http.client.HTTPConnection(parts.hostname, parts.port, timeout=timeout_s)

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    def request(
        self,
        method: str,
        path: str,
        document: object = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Ask and read the whole answer; `document` goes as JSON, or as it is where it is bytes."""
        response = self._send(method, path, document, headers)
        try:
            body = response.read(ANSWER_BYTES_MAX)
        except (OSError, http.client.HTTPException) as error:
            raise Unreachable(f"{self.url} broke off its answer: {error}") from error
        if not response.isclosed():
            # Longer than anything a local service says: the rest must not meet the next request.
            self._http.close()
        return Answer(response.status, {k.lower(): v for k, v in response.getheaders()}, body)

    def events(self, path: str, headers: Mapping[str, str] | None = None) -> Iterator[Event]:
        """The server-sent events of `path` until the server ends them.

        Raises Refused with the answer when it is not a stream.
        """
        response = self._send("GET", path, None, {"Accept": "text/event-stream", **(headers or {})})
        if response.status != http.client.OK:
            raise Refused(Answer(response.status, {}, response.read(ANSWER_BYTES_MAX)))
        try:
            yield from parse_events(iter(lambda: response.readline(EVENT_LINE_BYTES_MAX), b""))
        except (OSError, http.client.HTTPException) as error:
            raise Unreachable(f"{self.url} broke off the stream: {error}") from error

    def _send(
        self, method: str, path: str, document: object, headers: Mapping[str, str] | None
    ) -> http.client.HTTPResponse:
        if time.monotonic() - self._used_s > IDLE_S_MAX:
            self._http.close()
        sent = {**self._headers, **(headers or {})}
        body = None
        if isinstance(document, bytes):
            body = document
        elif document is not None:
            body = json.dumps(document, ensure_ascii=False).encode()
            sent.setdefault("Content-Type", "application/json")
        try:
            self._http.request(method, self._prefix + path, body, sent)
            response = self._http.getresponse()
        except (OSError, http.client.HTTPException) as error:
            self._http.close()
            raise Unreachable(f"nothing answers at {self.url}: {error}") from error
        self._used_s = time.monotonic()
        return response


class Refused(Exception):
    """The service answered, and the answer is no."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(answer.problem())
        self.answer = answer


def parse_events(lines: Iterator[bytes]) -> Iterator[Event]:
    """Server-sent events from the lines of a stream, as the HTML standard reads them."""
    ident: str | None = None
    name: str | None = None
    data: list[str] = []
    for raw in lines:
        line = raw.decode("utf-8", "replace").rstrip("\r\n")
        if not line:
            if data:
                yield Event(ident, name, "\n".join(data))
            name, data = None, []
            continue
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        # A line that begins with a colon is a comment: the server's sign of life.
        match field:
            case "data":
                data.append(value)
            case "id":
                ident = value
            case "event":
                name = value
            case _:
                pass
