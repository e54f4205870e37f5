"""Subscriptions and channels on the wire: asks a gatekeeper, and turns a refusal into an error.

Passes documents; decides nothing. The names in its paths are checked before: a path must mean one
thing only to everybody on the way.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

import orjson

from sidecar.delivery.reader import refusal_of, unreachable
from sidecar.errors import (
    BadRequest,
    GatekeeperRefused,
    SidecarError,
    SubscriptionConflict,
    UnknownChannel,
    UnknownSubscription,
)
from sidecar.uplink.gateway import Answer, Gateway, Unreachable

NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}", re.ASCII)
OWNER_BYTES_MAX: Final = 512
"""A principal's name, or a SPIFFE id."""
LONG_POLL_S: Final = 25.0
"""How long a gatekeeper is asked to wait for news: below the usual limits of what is between."""
ANSWER_S: Final = 10.0

Document = dict[str, Any]


def check_name(name: str, field: str = "name") -> str:
    """A subscription's name or a channel's id, or BadRequest."""
    if NAME.fullmatch(name) is None:
        raise BadRequest(
            field, "must begin with a letter or digit; then letters, digits, . _ - ; at most 128"
        )
    return name


class SubscriptionWire:
    """The routes below /v1/subscriptions and /v1/channels. Keeps no state."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def create(self, document: Document, owner: str | None = None) -> tuple[int, Document]:
        """Create; 201, or 200 where exactly this one exists, and the definition."""
        answer = await self._ask("POST", "/v1/subscriptions", _of(owner), document)
        return answer.status, _object(answer)

    async def list(self, owner: str | None = None) -> Document:
        """All of the owner's: `version` and `subscriptions`."""
        return _object(await self._ask("GET", "/v1/subscriptions", _of(owner)))

    async def changes(self, after: int) -> Document:
        """The same, once something has changed after `after`, or after a while."""
        query = {"after": str(after), "wait_ms": str(int(LONG_POLL_S * 1000))}
        answer = await self._ask(
            "GET", "/v1/subscriptions", query, timeout_s=LONG_POLL_S + ANSWER_S
        )
        return _object(answer)

    async def get(self, name: str, owner: str | None = None) -> Document:
        """The definition, and how it is."""
        return _object(await self._ask("GET", _path(name), _of(owner)))

    async def alter(
        self, name: str, change: Document, *, version: int, owner: str | None = None
    ) -> Document:
        """Change some of its members, if it is still as it was at `version`."""
        answer = await self._ask("PATCH", _path(name), _of(owner), change, if_match=version)
        return _object(answer)

    async def delete(self, name: str, owner: str | None = None) -> None:
        """Delete it."""
        await self._ask("DELETE", _path(name), _of(owner))

    async def act(
        self, name: str, verb: str, document: Document | None = None, owner: str | None = None
    ) -> Document:
        """`pause`, `resume`, `seek`, `ack` or `nack`."""
        return _object(await self._ask("POST", f"{_path(name)}/{verb}", _of(owner), document or {}))

    async def channels(self) -> Document:
        """All of the app's channels."""
        return _object(await self._ask("GET", "/v1/channels"))

    async def create_channel(self, document: Document) -> tuple[int, Document]:
        """Create one; 201, or 200 where exactly this one exists."""
        answer = await self._ask("POST", "/v1/channels", body=document)
        return answer.status, _object(answer)

    async def channel(self, ident: str) -> Document:
        """One of them."""
        return _object(await self._ask("GET", f"/v1/channels/{check_name(ident, 'channel')}"))

    async def put_channel(self, ident: str, document: Document) -> tuple[int, Document]:
        """Put one in the place of what was there."""
        path = f"/v1/channels/{check_name(ident, 'channel')}"
        answer = await self._ask("PUT", path, body=document)
        return answer.status, _object(answer)

    async def delete_channel(self, ident: str) -> None:
        """Delete one."""
        await self._ask("DELETE", f"/v1/channels/{check_name(ident, 'channel')}")

    async def topic(self, name: str, *, create: bool) -> Document:
        """A topic's description; made, where the core makes topics on first use."""
        query = {"create": "1"} if create else None
        return _object(await self._ask("GET", f"/v1/topics/{name}", query))

    async def offsets(self, topic: str, time_us: int | None = None) -> dict[int, Document]:
        """By partition: where it begins and ends, and the first offset at or after a time."""
        query = {"time_us": str(time_us)} if time_us is not None else None
        found = _object(await self._ask("GET", f"/v1/topics/{topic}/offsets", query))
        return {int(row["partition"]): row for row in found.get("partitions", ())}

    async def may(self, action: str, topic: str) -> Document:
        """Whether the policy would allow it: `allowed`, `detail`, `reason`, `rule`."""
        query = {"action": action, "topic": topic}
        return _object(await self._ask("GET", "/v1/access", query))

    async def _ask(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: Document | None = None,
        timeout_s: float = ANSWER_S,
        if_match: int | None = None,
    ) -> Answer:
        try:
            answer = await self._gateway.ask(
                method,
                path,
                query=query,
                body=None if body is None else [orjson.dumps(body)],
                timeout_s=timeout_s,
                if_match=if_match,
            )
        except Unreachable as error:
            raise unreachable(error) from error
        if answer.status >= 300:
            raise refusal(answer)
        return answer


def refusal(answer: Answer) -> SidecarError:
    """What a refusal means for the app."""
    document = answer.document()
    members = document if isinstance(document, dict) else {}
    code, detail = str(members.get("code", "")), str(members.get("detail", ""))
    if answer.status == 404 and code == "unknown_subscription":
        return UnknownSubscription(detail)
    if answer.status == 404 and code == "unknown_channel":
        return UnknownChannel(detail)
    if answer.status in (409, 412):
        kept = {name: members[name] for name in ("differs", "version") if name in members}
        return SubscriptionConflict(detail, members={"reason": code, **kept})
    if answer.status == 400:
        return BadRequest("body", detail)
    return refusal_of(answer)


def _path(name: str) -> str:
    return f"/v1/subscriptions/{check_name(name)}"


def _of(owner: str | None) -> dict[str, str] | None:
    if owner is None:
        return None
    if not owner.isprintable() or len(owner.encode()) > OWNER_BYTES_MAX:
        raise BadRequest("owner", "must be a principal's name")
    return {"owner": owner}


def _object(answer: Answer) -> Document:
    document = answer.document()
    if not isinstance(document, dict):
        raise GatekeeperRefused("a gatekeeper's answer is no JSON object")
    return document
