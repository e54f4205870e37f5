"""Destinations: one canonical form, the allow list, and never Sidegate's own ports."""

from ipaddress import ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.errors import BadDestination, ForbiddenDestination
from sidecar.push.destination import (
    DEFAULT_OWN_PORTS,
    DestinationGuard,
    canonical_address,
    is_this_machines,
    parse_allowed,
    parse_target,
)


def guard(*allow, ports=(), endpoints=(), local=()):
    return DestinationGuard(
        allow or ("loopback",),
        own_ports=lambda: ports,
        own_endpoints=endpoints,
        is_local=lambda address: str(address) in local,
    )


def check(judge, url, *addresses, own=frozenset()):
    target = parse_target(url)
    judge.check_name(target)
    for address in addresses:
        judge.check_address(target, ip_address(address), own)


@pytest.mark.parametrize(
    ("url", "canonical"),
    [
        ("http://127.0.0.1:8080", "http://127.0.0.1:8080/"),
        ("HTTP://LocalHost:80/a?b=c", "http://localhost/a?b=c"),
        ("https://example.com:443/", "https://example.com/"),
        ("http://example.com./x", "http://example.com/x"),
        ("http://[::1]:8080/x", "http://[::1]:8080/x"),
        ("http://[0:0:0:0:0:0:0:1]:8080/", "http://[::1]:8080/"),
        ("http://[::ffff:127.0.0.1]:8080/", "http://127.0.0.1:8080/"),
        ("http://[64:ff9b::7f00:1]:8080/", "http://127.0.0.1:8080/"),
        ("http://[2002:7f00:1::]:8080/", "http://127.0.0.1:8080/"),
        ("http://2130706433:8080/", "http://127.0.0.1:8080/"),
        ("http://0x7f.1:8080/", "http://127.0.0.1:8080/"),
        ("http://0177.0.0.1:8080/", "http://127.0.0.1:8080/"),
        ("http://127.1:8080/", "http://127.0.0.1:8080/"),
    ],
)
def test_a_destination_has_one_form(url, canonical):
    target = parse_target(url)
    assert target.url == canonical
    assert parse_target(canonical) == target


@pytest.mark.parametrize(
    "url",
    [
        "",
        "ftp://127.0.0.1/",
        "127.0.0.1:8080",
        "//127.0.0.1/",
        "http://",
        "http:///x",
        "http://user@127.0.0.1/",
        "http://user:pw@127.0.0.1/",
        "http://@127.0.0.1/",
        "http://127.0.0.1:0/",
        "http://127.0.0.1:99999/",
        "http://127.0.0.1:x/",
        "http://127.0.0.1/#x",
        "http://127.0.0.1/#",
        "http://127.0.0.1/ x",
        "http://127.0.0.1/\r\nHost: x",
        "http://127.0.0.1\\@evil/",
        "http://[fe80::1%25eth0]/",
        "http://[::1/",
        "http://exämple.com/",
        "http://ex%61mple.com/",
        "http://999.999.999.999/",
        "http://1.2.3.4.5/",
        "http://-x.com/",
        "http://a..b/",
        "http://127.0.0.1/" + "x" * 2048,
    ],
)
def test_what_could_be_understood_in_two_ways_is_refused(url):
    with pytest.raises(BadDestination):
        parse_target(url)


@given(st.text(max_size=60))
def test_whatever_comes_it_is_a_target_or_refused(text):
    for url in (text, f"http://{text}", f"http://127.0.0.1:8080/{text}"):
        try:
            target = parse_target(url)
        except BadDestination:
            continue
        assert parse_target(target.url) == target


def test_by_default_only_loopback_may_be_called():
    judge = guard()
    for address in ("127.0.0.1", "127.9.9.9", "::1"):
        check(judge, "http://app.local:8080/", address)
    for address in ("10.0.0.1", "8.8.8.8", "169.254.169.254", "fe80::1", "2001:4860::1"):
        with pytest.raises(ForbiddenDestination) as caught:
            check(judge, "http://app.local:8080/", address)
        assert "push.allow" in str(caught.value)
        assert caught.value.members["config_key"] == "push.allow"


@pytest.mark.parametrize("port", sorted(DEFAULT_OWN_PORTS))
def test_the_default_ports_of_sidegate_are_never_called(port):
    for host in ("127.0.0.1", "[::1]", "2130706433", "[::ffff:127.0.0.1]"):
        with pytest.raises(ForbiddenDestination, match="own ports"):
            check(guard("loopback", "0.0.0.0/0"), f"http://{host}:{port}/")
    with pytest.raises(ForbiddenDestination, match="own ports"):
        check(guard("loopback"), f"http://localhost:{port}/", "127.0.0.1")


def test_nor_are_those_of_the_configuration_by_whichever_address_of_this_machine():
    judge = guard("0.0.0.0/0", ports=[12345], local=["10.1.2.3"])
    for host in ("127.0.0.1", "10.1.2.3"):
        with pytest.raises(ForbiddenDestination, match="own ports"):
            check(judge, f"http://{host}:12345/")
    check(judge, "http://10.1.2.4:12345/")


def test_nor_is_a_gatekeeper_or_issuer_by_name_or_address():
    judge = guard("*.example", "10.0.0.0/8", endpoints=[("Gate.example", 9443)])
    with pytest.raises(ForbiddenDestination, match="gatekeeper"):
        check(judge, "https://gate.example:9443/", "10.0.0.5")
    own = frozenset({(ip_address("10.0.0.5"), 9443)})
    with pytest.raises(ForbiddenDestination, match="gatekeeper"):
        check(judge, "https://other.example:9443/", "10.0.0.5", own=own)
    check(judge, "https://gate.example:9444/", "10.0.0.5")


@pytest.mark.parametrize("address", ["0.0.0.0", "::", "224.0.0.1", "ff02::1", "255.255.255.255"])
def test_no_single_machines_address_is_never_called(address):
    host = f"[{address}]" if ":" in address else address
    with pytest.raises(ForbiddenDestination):
        check(guard("0.0.0.0/0", "::/0", "loopback"), f"http://{host}:8080/")


def test_a_name_allows_its_public_addresses_only():
    judge = guard("hooks.example", "*.corp.example:8443")
    check(judge, "https://hooks.example/", "93.184.216.34")
    check(judge, "https://a.corp.example:8443/", "93.184.216.34")
    for url, address in (
        ("https://hooks.example/", "127.0.0.1"),
        ("https://hooks.example/", "10.0.0.1"),
        ("https://hooks.example/", "169.254.169.254"),
        ("https://corp.example:8443/", "93.184.216.34"),
        ("https://a.corp.example/", "93.184.216.34"),
        ("https://xhooks.example/", "93.184.216.34"),
    ):
        with pytest.raises(ForbiddenDestination):
            check(judge, url, address)


def test_a_network_and_a_port_bound_what_is_allowed():
    judge = guard("10.1.0.0/16:8080", "[fd00::1]:80")
    check(judge, "http://10.1.2.3:8080/")
    check(judge, "http://[fd00::1]/")
    for url in ("http://10.1.2.3:8081/", "http://10.2.0.1:8080/", "http://[fd00::2]/"):
        with pytest.raises(ForbiddenDestination):
            check(judge, url)


@pytest.mark.parametrize("entry", ["", "*", "a b", "http://x", "10.0.0.0/33", "1.2", "x:0", "x:y"])
def test_an_entry_of_the_list_that_means_nothing_is_refused(entry):
    with pytest.raises(ValueError, match=r"is none of|no port"):
        parse_allowed(entry)


def test_only_this_machines_addresses_are_its_own():
    assert is_this_machines(ip_address("127.0.0.1"))
    assert not is_this_machines(ip_address("192.0.2.1"))
    assert canonical_address(ip_address("192.0.2.1")) == ip_address("192.0.2.1")
