from collections.abc import Callable

import pytest

from gatekeeper.policy.document import Document
from gatekeeper.policy.membership import Callers
from gatekeeper.policy.persona import Personas, UnknownCaller

Parse = Callable[[str], Document]

POLICY = """\
version: 1
issuers:
  corp: {issuer: "https://idp.example", audience: a}
  other: {issuer: "https://other.example", audience: a}
principals:
  full: {spiffe: "spiffe://example/full", issuer: corp, client_id: f, claims: {team: pay}}
  token-only: {issuer: other, client_id: t}
  cert-only: {spiffe: "spiffe://example/cert"}
groups: {all: [full]}
"""


@pytest.mark.parametrize("name", ["full", "token-only", "cert-only"])
def test_a_persona_fits_its_own_principal(parse: Parse, name: str) -> None:
    document = parse(POLICY)
    persona = Personas(document).make(name)
    assert Callers(document).resolve(persona).principal == name


def test_claims_and_scopes_are_added_to_what_the_conditions_ask_for(parse: Parse) -> None:
    persona = Personas(parse(POLICY)).make(
        "full", claims={"role": "x"}, scopes=frozenset({"log.publish"})
    )
    assert dict(persona.claims) == {"team": "pay", "role": "x"}
    assert persona.scopes == {"log.publish"}
    assert (persona.issuer, persona.issuer_url) == ("corp", "https://idp.example")
    assert (persona.spiffe_id, persona.client_id) == ("spiffe://example/full", "f")


def test_a_spiffe_id_is_a_caller_with_nothing_else(parse: Parse) -> None:
    persona = Personas(parse(POLICY)).make("spiffe://example/x")
    assert (persona.spiffe_id, persona.issuer, dict(persona.claims)) == (
        "spiffe://example/x",
        "",
        {},
    )


def test_a_principal_without_a_certificate_comes_from_nowhere(parse: Parse) -> None:
    persona = Personas(parse(POLICY)).make("token-only")
    assert persona.spiffe_id == "spiffe://nowhere.invalid/token-only"


def test_the_only_issuer_made_the_token_where_nothing_else_is_said(parse: Parse) -> None:
    document = parse(
        "version: 1\nissuers: {corp: {issuer: https://idp.example, audience: a}}\n"
        "principals: {app: {spiffe: spiffe://example/app}}\n"
    )
    assert Personas(document).make("app", claims={"a": "b"}).issuer == "corp"


@pytest.mark.parametrize(
    ("caller", "more", "problem"),
    [
        ("nobody", {}, "neither a principal nor a SPIFFE id"),
        ("all", {}, "is a group; name one of its members"),
        ("full", {"issuer": "other"}, "full has its tokens from corp, not from other"),
        ("cert-only", {"issuer": "crop"}, "not one of the policy's issuers"),
        ("cert-only", {"claims": {"a": "b"}}, "come from a named issuer"),
        ("cert-only", {"scopes": frozenset({"s"})}, "come from a named issuer"),
    ],
)
def test_who_can_not_be_made_up_is_told_why(
    parse: Parse, caller: str, more: dict[str, object], problem: str
) -> None:
    with pytest.raises(UnknownCaller, match=problem):
        Personas(parse(POLICY)).make(caller, **more)  # type: ignore[arg-type]
