from pathlib import Path

import pytest
import yaml

from gatekeeper.policy.load import load_policy
from gatekeeper.policy.problem import PolicyError
from sidegate.development import addresses, documents
from sidegate.development.services import AddedService

WHERE = addresses.chosen({}, {})


@pytest.mark.parametrize("name", sorted(documents.DOCUMENTS))
def test_every_document_is_yaml_with_keys(name: str) -> None:
    assert isinstance(yaml.safe_load(documents.DOCUMENTS[name](WHERE)), dict)


@pytest.mark.parametrize("name", sorted(documents.DOCUMENTS))
def test_no_address_is_written_down_that_was_not_given(name: str) -> None:
    moved = addresses.free_addresses()
    text = documents.DOCUMENTS[name](moved)
    for listener in addresses.LISTENERS:
        assert f":{listener.port}" not in text


def test_only_the_gatekeeper_is_admitted_to_the_core() -> None:
    assert yaml.safe_load(documents.core(WHERE))["admit"] == [documents.GATEKEEPER_ID]


def test_the_policy_denies_what_lies_below_forbidden_and_sets_no_quota() -> None:
    # YAML 1.1 reads the key `on` as true; the policy dialect reads every key as text.
    policy = yaml.load(documents.policy(WHERE), yaml.BaseLoader)  # noqa: S506 - makes strings only
    (deny,) = policy["deny"]
    assert deny["on"] == "forbidden.>"
    assert "quotas" not in policy


def test_every_service_has_a_certificate_of_its_own_identity() -> None:
    assert [leaf.name for leaf in documents.LEAVES] == ["core", "gatekeeper", "issuer", "sidecar"]
    assert len({leaf.spiffe_id for leaf in documents.LEAVES}) == len(documents.LEAVES)
    assert not documents.LEAVES[-1].server


PAYMENTS = AddedService("payments", 9010, (), ("orders",))


@pytest.mark.parametrize("services", [(), (PAYMENTS,), (AddedService("a", 9020), PAYMENTS)])
def test_the_gatekeeper_accepts_the_policy_and_its_tests_pass(
    services: tuple[AddedService, ...],
) -> None:
    text = documents.policy(WHERE, services)
    load_policy(text.encode(), file="policy.yaml", folder=Path(), environment="development")


def test_the_policy_is_refused_outside_development() -> None:
    text = documents.policy(WHERE)
    with pytest.raises(PolicyError, match="development"):
        load_policy(text.encode(), file="policy.yaml", folder=Path(), environment="production")


def test_every_added_service_is_in_the_policy_among_the_clients_and_has_a_sidecar() -> None:
    texts = documents.texts(WHERE, [PAYMENTS])
    assert set(texts) == {*documents.DOCUMENTS, "payments.yaml"}
    assert "payments" in yaml.safe_load(texts["clients.yaml"])["clients"]
    assert "payments" in yaml.safe_load(texts["policy.yaml"])["principals"]
    sidecar = yaml.safe_load(texts["payments.yaml"])
    assert sidecar["listen"] == "127.0.0.1:9010"
    assert sidecar["tcp"] == "127.0.0.1:9011"
    assert sidecar["tls"]["certificate"] == "certs/payments.pem"
    assert sidecar["data"] == "data/payments"


def test_a_sidecar_without_a_tcp_address_serves_no_tcp() -> None:
    assert yaml.safe_load(documents.sidecar(WHERE))["tcp"] == "127.0.0.1:9001"
    without = addresses.chosen({}, {addresses.SIDECAR_TCP: None})
    assert "tcp" not in yaml.safe_load(documents.sidecar(without))
