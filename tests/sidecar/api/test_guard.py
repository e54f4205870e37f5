"""Own apps come in by every name that is theirs; pages of other sites by none."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from multidict import CIMultiDict

from sidecar.api.guard import Guard
from sidecar.errors import ForeignCaller

GUARD = Guard.of(["Sidecar.Internal", "proxy:8080"])


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "localhost:9000",
        "LOCALHOST:9000",
        "127.0.0.1",
        "127.0.0.1:1",
        "[::1]",
        "[::1]:9000",
        "sidecar.internal",
        "sidecar.internal:9000",
        "proxy:8080",
    ],
)
def test_own_names_may_be_called_with_and_without_a_port(host):
    GUARD.check(host, None, None)
    GUARD.check(host, f"http://{host}", "same-origin")
    GUARD.check(host, f"HTTPS://{host}", "Same-Site")


@pytest.mark.parametrize(
    "host",
    [
        None,
        "",
        "evil.example",
        "evil.example:9000",
        "localhost.evil.example",
        "evil.localhost",
        "localhost.",
        "localhost:",
        "localhost:x",
        "localhost:65536",
        "localhost:٣",
        "localhost:9000:9000",
        "localhost@evil.example",
        "localhost/evil.example",
        "127.0.0.1.nip.io",
        "127.0.0.2",
        "0.0.0.0",
        "::1",
        "[::1",
        "[::1]evil",
        "[::1]evil:9000",
        "proxy",
        "proxy:8081",
        " localhost",
        "localhost,evil.example",
    ],
)
def test_a_host_that_is_not_ours_is_refused(host):
    with pytest.raises(ForeignCaller, match=r"^Host: "):
        GUARD.check(host, None, None)


@pytest.mark.parametrize(
    "origin",
    [
        "null",
        "",
        "https://evil.example",
        "http://localhost.evil.example",
        "http://localhost@evil.example",
        "http://evil.example/localhost",
        "file://localhost",
        "chrome-extension://localhost",
        "//localhost",
        "localhost",
        "http:/localhost",
        "http://",
        "http://localhost/",
        "http://localhost http://evil.example",
    ],
)
def test_an_origin_that_is_not_ours_is_refused(origin):
    with pytest.raises(ForeignCaller, match=r"^Origin: "):
        GUARD.check("localhost:9000", origin, None)


@pytest.mark.parametrize("site", ["cross-site", "", "CROSS-SITE", "anything", "none "])
def test_another_site_is_refused_whatever_origin_it_names(site):
    with pytest.raises(ForeignCaller, match=r"^Sec-Fetch-Site: "):
        GUARD.check("localhost", "http://localhost", site)


@pytest.mark.parametrize("site", ["same-origin", "same-site", "none", None])
def test_requests_of_this_machine_pass(site):
    GUARD.check("localhost:9000", None, site)


def test_no_name_is_let_in_that_was_not_configured():
    with pytest.raises(ForeignCaller):
        Guard().check("sidecar.internal", None, None)
    Guard().check("localhost", None, None)


def test_a_refusal_says_what_to_do_and_does_not_repeat_a_whole_long_header():
    with pytest.raises(ForeignCaller, match="allowed_hosts") as caught:
        GUARD.check("e" * 10_000, None, None)
    assert len(str(caught.value)) < 300


@given(st.text(max_size=40))
def test_only_texts_that_begin_with_an_own_name_are_ever_let_in(host):
    own = ("localhost", "127.0.0.1", "[::1]", "sidecar.internal", "proxy:8080")
    if GUARD.is_own_host(host):
        assert host.lower().startswith(own)


LOCAL = [("Host", "localhost:9000")]


@pytest.mark.parametrize(
    "more",
    [
        [("Host", "localhost:9000")],
        [("host", "evil.example")],
        [("Origin", "http://localhost"), ("Origin", "http://localhost")],
        [("Origin", "http://localhost"), ("origin", "https://evil.example")],
        [("Origin", "https://evil.example"), ("Origin", "http://localhost")],
        [("Sec-Fetch-Site", "none"), ("Sec-Fetch-Site", "cross-site")],
    ],
)
def test_a_header_that_comes_twice_is_refused_whatever_it_says(more):
    with pytest.raises(ForeignCaller, match="2 times"):
        GUARD.check_request("/publish", CIMultiDict(LOCAL + more))


@pytest.mark.parametrize(
    "target", ["http://localhost:9000/publish", "http://evil.example/", "*", "evil.example:80", ""]
)
def test_a_target_that_is_not_a_path_is_refused(target):
    with pytest.raises(ForeignCaller, match="request target"):
        GUARD.check_request(target, CIMultiDict(LOCAL))


def test_a_plain_request_passes():
    GUARD.check_request("/publish?ack=core", CIMultiDict([*LOCAL, ("Origin", "http://localhost")]))
    with pytest.raises(ForeignCaller, match=r"^Host: "):
        GUARD.check_request("/publish", CIMultiDict())
