from collections.abc import Callable

import pytest

from gatekeeper.policy.document import Document
from gatekeeper.policy.environment import environment_problems

Parse = Callable[[str], Document]

DEVELOPMENT = """\
version: 1
issuers:
  dev: {issuer: "https://localhost:8446", audience: a}
  half: {issuer: "https://idp.example", audience: a, jwks_uri: "https://127.0.0.1/keys"}
principals:
  app: {spiffe: "spiffe://sidegate-dev/app/dev", issuer: dev}
"""


def test_production_refuses_loopback_issuers_and_the_development_trust_domain(
    parse: Parse,
) -> None:
    found = list(environment_problems(parse(DEVELOPMENT), "production"))
    assert [(problem.line, problem.where) for problem in found] == [
        (3, "issuers.dev.issuer"),
        (4, "issuers.half.jwks_uri"),
        (6, "principals.app.spiffe"),
    ]
    assert all("development" in problem.text for problem in found)


def test_development_may_trust_them(parse: Parse) -> None:
    assert list(environment_problems(parse(DEVELOPMENT), "development")) == []


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST", "a.localhost", "127.0.0.1", "127.1.2.3", "[::1]", "0.0.0.0"]
)
def test_a_loopback_host_is_known_however_it_is_spelt(parse: Parse, host: str) -> None:
    text = f'version: 1\nissuers: {{dev: {{issuer: "https://{host}:8446", audience: a}}}}\n'
    assert len(list(environment_problems(parse(text), "production"))) == 1


def test_an_ordinary_policy_is_fit_for_production(parse: Parse, head: str) -> None:
    assert list(environment_problems(parse(head), "production")) == []
