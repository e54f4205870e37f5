import socket

import pytest

from hosting.units import Address
from sidegate.development import addresses
from sidegate.development.addresses import CORE, LISTENERS, SIDECAR, SIDECAR_TCP, AddressError


def test_without_overrides_every_listener_has_its_default_on_loopback() -> None:
    where = addresses.chosen({}, {})
    assert {str(address) for address in where.values()} == {
        f"127.0.0.1:{port}" for port in (7443, 7444, 8443, 8444, 8445, 8446, 9000, 9001)
    }


def test_a_variable_beats_the_users_file_and_that_beats_the_default() -> None:
    kept = {SIDECAR: "127.0.0.1:9200", CORE: "127.0.0.1:7500"}
    where = addresses.chosen({"SIDEGATE_SIDECAR_LISTEN": "127.0.0.1:9100"}, kept)
    assert str(where[SIDECAR]) == "127.0.0.1:9100"
    assert str(where[CORE]) == "127.0.0.1:7500"


@pytest.mark.parametrize("text", ["nine thousand", "127.0.0.1:0", "unix:run/sidecar.sock"])
def test_an_override_that_is_no_port_is_named(text: str) -> None:
    with pytest.raises(AddressError, match="SIDEGATE_SIDECAR_LISTEN"):
        addresses.chosen({"SIDEGATE_SIDECAR_LISTEN": text}, {})


def test_the_variables_lead_back_to_the_same_addresses() -> None:
    where = addresses.free_addresses()
    assert addresses.chosen(addresses.variables(where), {}) == where


def test_free_addresses_are_all_different_and_free() -> None:
    where = addresses.free_addresses()
    assert len(set(where.values())) == len(LISTENERS)
    assert list(addresses.obstacles(where)) == []


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_a_taken_port_is_named_with_its_service_and_a_free_one_to_use(host: str) -> None:
    with socket.create_server((host, 0)) as other:
        port = other.getsockname()[1]
        where = {**addresses.free_addresses(), SIDECAR: Address("127.0.0.1", port)}
        (sentence,) = addresses.obstacles(where)
    assert f"127.0.0.1:{port} is taken" in sentence
    assert "the sidecar's HTTP API" in sentence
    suggestion = sentence.partition("SIDEGATE_SIDECAR_LISTEN=")[2].split()[0]
    assert Address.parse(suggestion).port != port
    assert sentence.endswith("make up")


def test_all_taken_ports_are_named_at_once() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as one,
        socket.create_server(("127.0.0.1", 0)) as two,
    ):
        where = {
            **addresses.free_addresses(),
            SIDECAR: Address("127.0.0.1", one.getsockname()[1]),
            CORE: Address("127.0.0.1", two.getsockname()[1]),
        }
        assert len(list(addresses.obstacles(where))) == 2


def test_two_services_on_one_address_are_both_named() -> None:
    where = addresses.free_addresses()
    where[CORE] = where[SIDECAR]
    (sentence,) = addresses.obstacles(where)
    assert "SIDEGATE_CORE_LISTEN" in sentence
    assert "SIDEGATE_SIDECAR_LISTEN" in sentence


def test_a_listener_on_every_interface_is_reached_by_loopback() -> None:
    assert addresses.reachable(Address.parse(":9000")) == "127.0.0.1:9000"
    assert addresses.reachable(Address.parse("0.0.0.0:9000")) == "127.0.0.1:9000"
    assert addresses.reachable(Address.parse("[::1]:9000")) == "[::1]:9000"


def test_an_address_is_free_until_somebody_listens_there() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = Address("127.0.0.1", other.getsockname()[1])
        assert not addresses.is_free(address)
    assert addresses.is_free(address)


def test_an_optional_listener_that_the_users_file_leaves_out_is_left_out() -> None:
    assert SIDECAR_TCP not in addresses.chosen({}, {SIDECAR_TCP: None})
    named = addresses.chosen({"SIDEGATE_SIDECAR_TCP": "127.0.0.1:9101"}, {SIDECAR_TCP: None})
    assert str(named[SIDECAR_TCP]) == "127.0.0.1:9101"
