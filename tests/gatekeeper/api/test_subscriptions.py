"""Subscriptions through a running gatekeeper: one's own with subscribe, another's with share."""

import time
from typing import Any

import pytest
from aiohttp import web

from gatekeeper.api.subscriptions import owner_name, subscription_name
from gatekeeper.errors import BadRequest

POLICY = """\
  jobs.*: {subscribe: [billing, reader], share: {who: [reader], owners: [billing]}}
  closed: {subscribe: [billing]}
  past: {subscribe: [billing], replay: {who: [reader], max_age: 1h}}
"""
MAILER = {"name": "mailer", "owner": "billing", "topic": "jobs.mail"}


@pytest.fixture
async def jobs(new_mesh: Any) -> Any:
    mesh = await new_mesh(policy=POLICY)
    mesh.core.subscriptions["billing", "mailer"] = dict(MAILER)
    return mesh


async def test_one_may_create_what_one_may_subscribe_to(jobs: Any) -> None:
    body = {"name": "new", "topic": "jobs.mail", "settings": {"a": 1}}
    status, asked, _ = await jobs.caller().ask("POST", "/v1/subscriptions", json=body)
    assert status == 200
    assert asked["body"] == {**body, "from": "latest", "owner": "billing"}
    assert (asked["principal"], asked["topic"]) == ("billing", "jobs.mail")
    body["topic"] = "secret"
    status, problem, _ = await jobs.caller().ask("POST", "/v1/subscriptions", json=body)
    assert (status, problem["code"], problem["action"]) == (403, "denied", "subscribe")


@pytest.mark.parametrize(
    ("method", "rest", "body"),
    [
        ("PATCH", "", {"push": True}),
        ("DELETE", "", None),
        ("POST", "/pause", None),
        ("POST", "/resume", None),
        ("POST", "/ack", {"partition": 0, "ranges": [[0, 1]]}),
        ("POST", "/nack", {"partition": 0, "offsets": [1]}),
        ("POST", "/seek", {"to": "latest"}),
    ],
)
async def test_each_is_decided_about_the_subscriptions_own_topic(
    jobs: Any, method: str, rest: str, body: Any
) -> None:
    path = f"/v1/subscriptions/mailer{rest}"
    status, asked, _ = await jobs.caller().ask(method, path, json=body)
    assert (status, asked["method"], asked["topic"]) == (200, method, "jobs.mail")
    assert asked["path"] == f"{path}?owner=billing"
    assert asked["body"] == body
    shared = jobs.caller("reader", "reader")
    status, asked, _ = await shared.ask(method, f"{path}?owner=billing", json=body)
    assert (status, asked["principal"]) == (200, "reader")
    status, problem, _ = await shared.ask(method, path, json=body)
    assert (status, problem["code"]) == (404, "unknown_subscription"), "it has none of its own"
    jobs.core.subscriptions["billing", "mailer"]["topic"] = "closed"
    status, problem, _ = await shared.ask(method, f"{path}?owner=billing", json=body)
    assert (status, problem["action"]) == (403, "share")
    missing = path.replace("mailer", "none")
    status, other, _ = await shared.ask(method, f"{missing}?owner=billing", json=body)
    assert status == 403
    different = {name for name in problem if problem[name] != other.get(name)}
    assert different <= {"decision_id", "request_id"}, "nobody learns what is not shared"
    assert problem.keys() == other.keys()


async def test_what_is_another_owners_needs_a_share_with_that_owner(jobs: Any) -> None:
    jobs.core.subscriptions["reader", "mine"] = {
        "name": "mine",
        "owner": "reader",
        "topic": "jobs.mail",
    }
    status, problem, _ = await jobs.caller().ask("DELETE", "/v1/subscriptions/mine?owner=reader")
    assert (status, problem["action"], problem["topic"]) == (403, "share", "")
    assert "this subscription of reader's" in problem["detail"]
    status, problem, _ = await jobs.caller().ask("GET", "/v1/subscriptions/mine?owner=reader")
    assert (status, problem["action"]) == (403, "share")
    body = {"name": "x", "topic": "jobs.mail", "owner": "reader"}
    status, problem, _ = await jobs.caller().ask("POST", "/v1/subscriptions", json=body)
    assert (status, problem["action"]) == (403, "share")
    shared = jobs.caller("reader", "reader")
    assert (await shared.ask("GET", "/v1/subscriptions/mailer?owner=billing"))[1] == MAILER
    noted = [record for record in jobs.core.records() if record["action"] == "share"]
    assert [(record["allowed"], record["owner"]) for record in noted].count((True, "billing")) == 1
    refused = [record["topic"] for record in noted if not record["allowed"]]
    assert "jobs.mail" in refused, "whoever keeps the policy is told what it was about"


async def test_the_list_shows_what_is_shared_and_nothing_else(jobs: Any) -> None:
    jobs.core.subscriptions["billing", "closed"] = {**MAILER, "name": "closed", "topic": "closed"}
    mine = (await jobs.caller().ask("GET", "/v1/subscriptions"))[1]
    assert [each["name"] for each in mine["subscriptions"]] == ["mailer", "closed"]
    shared = jobs.caller("reader", "reader")
    listed = (await shared.ask("GET", "/v1/subscriptions?owner=billing&after=3&wait_ms=9"))[1]
    assert listed == {"version": 9, "subscriptions": [MAILER]}
    assert (await shared.ask("GET", "/v1/subscriptions"))[1]["subscriptions"] == []
    assert jobs.core.requests[-2][1] == "/v1/subscriptions?owner=billing&after=3&wait_ms=9"


async def test_one_sees_ones_own_whatever_the_policy_says_now(jobs: Any) -> None:
    jobs.core.subscriptions["billing", "mailer"]["topic"] = "secret"
    status, shown, _ = await jobs.caller().ask("GET", "/v1/subscriptions/mailer")
    assert (status, shown["topic"]) == (200, "secret")


def offsets(cutoff: int) -> Any:
    async def answer(request: web.Request) -> web.Response:
        assert "time_us" in request.query
        partition = {"partition": 0, "start_offset": 2, "end_offset": 90, "offset": cutoff}
        return web.json_response({"partitions": [partition]})

    return answer


@pytest.mark.parametrize(
    ("to", "allowed"),
    [
        ("latest", True),
        ("earliest", False),
        ({"offsets": {"0": 40}}, True),
        ({"offsets": {"0": 39}}, False),
        ({"offsets": {"7": 0}}, True),
        ({"time_us": 5}, False),
        ({"time_us": 2**60}, True),
    ],
)
async def test_a_seek_reaches_back_as_far_as_a_stream_would(
    jobs: Any, to: Any, *, allowed: bool
) -> None:
    jobs.core.intercept["/v1/topics/jobs.mail/offsets"] = offsets(40)
    status, answer, _ = await jobs.caller().ask(
        "POST", "/v1/subscriptions/mailer/seek", json={"to": to}
    )
    assert status == (200 if allowed else 403), answer
    if not allowed:
        assert answer["reason"] == "older_than_allowed"


async def test_a_creation_in_the_past_is_held_against_the_look_back_once(jobs: Any) -> None:
    jobs.core.intercept["/v1/topics/jobs.mail/offsets"] = offsets(40)
    body = {"name": "new", "topic": "jobs.mail", "from": "earliest"}
    status, problem, _ = await jobs.caller().ask("POST", "/v1/subscriptions", json=body)
    assert (status, problem["reason"]) == (403, "older_than_allowed")
    body["name"] = "mailer"
    status, _, _ = await jobs.caller().ask("POST", "/v1/subscriptions", json=body)
    assert status == 200, "it exists: nothing is moved"
    body |= {"name": "new", "from": {"time_us": time.time_ns() // 1000 - 60_000_000}}
    assert (await jobs.caller().ask("POST", "/v1/subscriptions", json=body))[0] == 200
    jobs.core.intercept["/v1/topics/jobs.mail/offsets"] = offsets(2)
    body["from"] = "earliest"
    assert (await jobs.caller().ask("POST", "/v1/subscriptions", json=body))[0] == 200


async def test_a_version_is_passed_on(jobs: Any) -> None:
    headers = {"If-Match": '"12"'}
    path = "/v1/subscriptions/mailer"
    asked = (await jobs.caller().ask("DELETE", path, headers=headers))[1]
    assert asked["if_match"] == '"12"'
    status, problem, _ = await jobs.caller().ask("DELETE", path, headers={"If-Match": "*"})
    assert (status, problem["code"]) == (400, "bad_request")


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("", {"name": "x", "topic": "a b"}),
        ("", {"name": "x", "topic": "jobs.mail", "from": "soon"}),
        ("?owner=reader", {"name": "x", "topic": "jobs.mail", "owner": "billing"}),
        ("", {"name": "x", "topic": "jobs.mail", "owner": 7}),
        ("/mailer/seek", {}),
        ("/mailer/seek", {"to": {"offsets": {"x": 1}}}),
        ("/-x/pause", None),
    ],
)
async def test_what_is_no_request_of_this_wire_is_refused(jobs: Any, path: str, body: Any) -> None:
    status, problem, _ = await jobs.caller().ask("POST", f"/v1/subscriptions{path}", json=body)
    assert (status, problem["code"]) == (400, "bad_request"), problem


@pytest.mark.parametrize("owner", ["", "x" * 513, 7, "a\nb"])
def test_an_owner_is_a_printable_name(owner: object) -> None:
    with pytest.raises(BadRequest, match="owner: must be"):
        owner_name(owner)
    assert owner_name(None) is None


def test_names_are_plain() -> None:
    assert subscription_name("a.b-c_d") == "a.b-c_d"
    for name in ("", "a/b", "-a", None, "x" * 129):
        with pytest.raises(BadRequest, match="name: must be of the form"):
            subscription_name(name)
