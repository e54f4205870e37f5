"""The table of routes: complete, closed, and hard to walk around."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatekeeper.api.routes import ROUTES, Needs, find_route, plain_path, questions_for


def test_every_route_has_a_need_and_no_two_share_method_and_path() -> None:
    assert all(isinstance(route.needs, Needs) for route in ROUTES)
    assert len({(route.method, route.path) for route in ROUTES}) == len(ROUTES)
    assert len({route.name for route in ROUTES}) == len(ROUTES)
    assert all(route.path.startswith("/v1/") for route in ROUTES)


@pytest.mark.parametrize(
    ("method", "path", "name", "topic"),
    [
        ("POST", "/v1/append", "append", ""),
        ("GET", "/v1/topics", "list_topics", ""),
        ("GET", "/v1/topics/orders.eu", "describe_topic", "orders.eu"),
        ("PATCH", "/v1/topics/orders", "alter_topic", "orders"),
        ("GET", "/v1/topics/orders/offsets", "offsets", "orders"),
        ("GET", "/v1/topics/offsets", "describe_topic", "offsets"),
    ],
)
def test_a_route_is_found_by_method_and_path(method: str, path: str, name: str, topic: str) -> None:
    route, found = find_route(method, path)
    assert (route.name, found) == (name, topic)


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/v1",
        "/v1/",
        "/v2/append",
        "/v1/append/",
        "/v1/appends",
        "/v1/revocations",
        "/v1/cosignatures",
        "/v1/topics/",
        "/v1/topics/a/b",
        "/metrics",
        "/healthz",
    ],
)
def test_a_path_that_is_not_in_the_table_is_closed(path: str) -> None:
    with pytest.raises(KeyError) as caught:
        find_route("GET", path)
    assert caught.value.args == ()


def test_a_wrong_method_names_the_right_ones() -> None:
    with pytest.raises(KeyError) as caught:
        find_route("PUT", "/v1/topics/orders")
    assert caught.value.args == ("DELETE", "GET", "PATCH")


@pytest.mark.parametrize(
    "target",
    [
        "",
        "*",
        "v1/append",
        "//v1/append",
        "/v1//append",
        "/v1/append/",
        "/v1/./append",
        "/v1/../v1/append",
        "/v1/topics/..",
        "/v1/topics/a%2Fb",
        "/v1/topics/%2e%2e",
        "/v1/topics/a%00",
        "/v1\\append",
        "/v1/append#x",
        "/v1/append;x=1",
        "http://core/v1/append",
        "/v1/topics/ä",
        "/v1/app end",
    ],
)
def test_a_target_that_could_mean_two_things_is_not_plain(target: str) -> None:
    assert not plain_path(target)


def test_a_plain_target_may_have_a_query() -> None:
    assert plain_path("/v1/read?topic=a%2Fb&offset=0")
    assert plain_path("/v1/topics/_audit")


@given(st.text(max_size=40))
def test_only_plain_targets_can_reach_a_route(target: str) -> None:
    if not plain_path(target):
        return
    path = target.partition("?")[0]
    assert "%" not in path
    assert "//" not in path
    assert not {".", ".."} & set(path.split("/"))


def test_what_the_policy_is_asked() -> None:
    assert questions_for(Needs.PUBLISH, "a") == ("publish",)
    assert questions_for(Needs.ADMIN, "a") == ("admin",)
    assert questions_for(Needs.HISTORY, "a") == ("replay", "subscribe")
    assert questions_for(Needs.STREAM, "a", from_latest=True) == ("subscribe",)
    assert questions_for(Needs.STREAM, "a") == ("replay", "subscribe")
    assert questions_for(Needs.HISTORY, "_audit") == ("audit",)
    assert questions_for(Needs.STREAM, "_audit", from_latest=True) == ("audit",)
    assert questions_for(Needs.ANY, "a") == ("any",)
