"""Policies and callers for the tests of this folder."""

from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest

from gatekeeper.identity.identity import Identity
from gatekeeper.policy.decide import Policy
from gatekeeper.policy.document import Document
from gatekeeper.policy.parse import parse_policy
from gatekeeper.policy.problem import PolicyError

HEAD = """\
version: 1
issuers:
  corp: {issuer: "https://idp.example", audience: "urn:sidegate"}
  other: {issuer: "https://other.example", audience: "urn:sidegate"}
principals:
  billing: {spiffe: "spiffe://example/billing", issuer: corp, client_id: billing}
  legacy: {spiffe: "spiffe://example/legacy"}
  reader: {spiffe: "spiffe://example/reader", issuer: corp}
groups: {auditors: [reader]}
"""
"""Two issuers, three principals and a group; what a test is about follows it."""

URLS = {"corp": "https://idp.example", "other": "https://other.example"}


@pytest.fixture
def head() -> str:
    return HEAD


@pytest.fixture
def parse() -> Callable[[str], Document]:
    def parsed(text: str) -> Document:
        return parse_policy(dedent(text).encode(), file="policy.yaml", folder=Path("conf"))

    return parsed


@pytest.fixture
def problems(parse: Callable[[str], Document]) -> Callable[[str], list[tuple[int, str, str]]]:
    """Every problem of a text, as (line, where, text)."""

    def found(text: str) -> list[tuple[int, str, str]]:
        with pytest.raises(PolicyError) as caught:
            parse(text)
        return [(item.line, item.where, item.text) for item in caught.value.problems]

    return found


@pytest.fixture
def rules(parse: Callable[[str], Document]) -> Callable[[str], Policy]:
    """The policy of HEAD and what is given."""

    def made(text: str = "") -> Policy:
        return Policy(parse(HEAD + dedent(text)))

    return made


@pytest.fixture
def caller() -> Callable[..., Identity]:
    def made(name: str = "billing", **changes: object) -> Identity:
        facts: dict[str, object] = {
            "spiffe_id": f"spiffe://example/{name}",
            "thumbprint": bytes(32),
            "issuer": "corp",
            "issuer_url": URLS.get(str(changes.get("issuer", "corp")), ""),
            "client_id": name,
            "subject": name,
            "token_id": "t1",
            "scopes": frozenset(),
            "expires_at": 1e12,
            "claims": {},
        }
        return Identity(**(facts | changes))  # type: ignore[arg-type]

    return made
