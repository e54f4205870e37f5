"""What is for development is refused anywhere else, however it is spelt."""

import pytest

from hosting.environment import (
    Environment,
    development_identity_problems,
    is_development_identity,
    is_loopback_url,
    loopback_issuer_problems,
)


@pytest.mark.parametrize(
    "identity",
    [
        "sidegate-dev",
        "spiffe://sidegate-dev/core",
        "SPIFFE://Sidegate-Dev/x",
        "spiffe://sidegate-dev",
    ],
)
def test_the_development_domain_and_its_ids_are_known(identity: str) -> None:
    assert is_development_identity(identity)


@pytest.mark.parametrize(
    "identity",
    ["example.org", "spiffe://example.org/sidegate-dev", "spiffe://sidegate-dev.example/x", ""],
)
def test_other_domains_are_not_taken_for_it(identity: str) -> None:
    assert not is_development_identity(identity)


@pytest.mark.parametrize(
    "url",
    [
        "https://localhost:8446",
        "https://LOCALHOST./",
        "https://a.localhost",
        "https://127.0.0.1:8446/issuer",
        "https://127.8.9.10",
        "https://127.1",
        "https://0x7f000001",
        "https://2130706433",
        "https://[::1]:8446",
        "https://[::ffff:127.0.0.1]",
        "https://0.0.0.0",
        "https://[::]",
    ],
)
def test_every_spelling_of_this_machine_is_a_loopback_issuer(url: str) -> None:
    assert is_loopback_url(url)


@pytest.mark.parametrize(
    "url",
    [
        "https://issuer.example",
        "https://10.0.0.1",
        "https://localhost.example",
        "https://[fe80::1%1]",
    ],
)
def test_other_machines_are_no_loopback_issuers(url: str) -> None:
    assert not is_loopback_url(url)


def test_production_refuses_both_and_says_what_to_set() -> None:
    domain = list(development_identity_problems("production", "admit", "a", "sidegate-dev"))
    issuer = list(loopback_issuer_problems("production", "oauth.issuer", "https://localhost"))
    assert [key for key, _ in domain + issuer] == ["admit", "oauth.issuer"]
    assert all("environment: development" in text for _, text in domain + issuer)


def test_development_allows_both() -> None:
    assert not list(development_identity_problems("development", "admit", "sidegate-dev"))
    assert not list(loopback_issuer_problems("development", "issuer", "https://127.0.0.1"))


@pytest.mark.parametrize("environment", ["development", "production"])
def test_a_text_that_is_no_url_never_passes_as_one_of_another_machine(
    environment: Environment,
) -> None:
    assert [key for key, _ in loopback_issuer_problems(environment, "issuer", "https://[")]
