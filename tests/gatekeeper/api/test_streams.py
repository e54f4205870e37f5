"""Open streams are asked again: by a plain function, and by whoever keeps them."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from gatekeeper.api.connections import Connections
from gatekeeper.api.gate import Caller
from gatekeeper.api.streams import End, OpenStream, Streams, why_end
from gatekeeper.audit.decisions import rule_on
from gatekeeper.identity.revocation import RevocationSet, parse_revocation

QUESTIONS = ("subscribe",)


class Wire:
    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default

    def abort(self) -> None:
        raise AssertionError("not here")


@pytest.fixture
async def stream(mesh: Any) -> OpenStream:
    """A stream of `reader` on orders.eu, as the running gatekeeper would make it."""
    gatekeeper = mesh.gatekeeper
    leaf = mesh.leaf("reader")
    now = time.time()
    token = mesh.token(leaf, "reader")
    identity = await gatekeeper.authenticator.authenticate(leaf.chain, token, now)
    policy = gatekeeper.policies.policy
    connection = gatekeeper.connections.opened(Wire(), 0.0)
    decision = policy.decide(identity, "subscribe", "orders.eu")
    return OpenStream(
        Caller(identity, "reader", connection, 0, "r"),
        gatekeeper.authenticator.verify_peer(leaf.chain, now),
        QUESTIONS,
        "orders.eu",
        rule_on(decision, identity=identity, policy_hash=policy.hash, now_us=1),
        asyncio.get_running_loop().create_future(),
    )


def asked(mesh: Any, stream: OpenStream, **changed: Any) -> End | None:
    gatekeeper = mesh.gatekeeper
    facts: dict[str, Any] = {
        "authenticator": gatekeeper.authenticator,
        "policy": gatekeeper.policies.policy,
        "connections": Connections(9, 9, 60.0),
        "now": time.time(),
        "now_s": 1.0,
    }
    return why_end(stream, **{**facts, **changed})


async def test_a_stream_that_is_still_allowed_goes_on(mesh: Any, stream: OpenStream) -> None:
    assert asked(mesh, stream) is None


async def test_expiry_revocation_and_age_end_it(mesh: Any, stream: OpenStream) -> None:
    end = asked(mesh, stream, now=stream.caller.identity.expires_at)
    assert end is not None
    assert end.code == "token_expired"
    end = asked(mesh, stream, now_s=60.0)
    assert end is not None
    assert end.code == "connection_age"
    authenticator = mesh.gatekeeper.authenticator
    record = parse_revocation({"kind": "client", "value": "reader"})
    authenticator.revocations = RevocationSet().extended(1, [record], time.time())
    end = asked(mesh, stream)
    assert end is not None
    assert end.code == "client_revoked"


async def test_a_new_policy_is_asked_and_an_unchanged_one_is_not(
    mesh: Any, stream: OpenStream, wait_until: Callable[..., Any]
) -> None:
    before = mesh.gatekeeper.policies.policy
    mesh.write_policy("deny:\n  - {id: D1, who: [reader], do: [subscribe], on: '>', reason: x}\n")
    await wait_until(lambda: mesh.gatekeeper.policies.policy is not before)
    end = asked(mesh, stream)
    assert end is not None
    assert (end.code, end.members["reason"]) == ("denied", "denied_by_rule")
    assert end.decision is not None
    assert asked(mesh, stream, policy=before) is None


async def test_a_policy_that_names_the_caller_otherwise_ends_it(
    mesh: Any, stream: OpenStream
) -> None:
    stream.caller = replace(stream.caller, principal="somebody else")
    stream.ruling = replace(stream.ruling, policy_hash=bytes(32))
    end = asked(mesh, stream)
    assert end is not None
    assert end.code == "principal_changed"


async def test_the_first_reason_counts(stream: OpenStream) -> None:
    stream.end(End("first", ""))
    stream.end(End("second", ""))
    assert stream.ended.result().code == "first"


async def test_a_stream_that_comes_during_a_drain_is_ended_at_once(
    mesh: Any, stream: OpenStream
) -> None:
    gatekeeper = mesh.gatekeeper
    streams = Streams(
        authenticator=gatekeeper.authenticator,
        policy=lambda: gatekeeper.policies.policy,
        connections=gatekeeper.connections,
        interval_s=60.0,
        note_denial=gatekeeper.gate.note_denial,
    )
    await streams.drain()
    streams.add(stream)
    assert stream.ended.result().code == "draining"
    streams.remove(stream)
    assert len(streams) == 0
