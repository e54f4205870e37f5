"""The admin port: for operators on this machine, and for nobody else."""

from collections.abc import AsyncIterator, Callable
from typing import Any

import aiohttp
import pytest

from gatekeeper.api.admin import explanation
from gatekeeper.errors import BadRequest

Make = Callable[..., bytes]


class Operator:
    def __init__(self, mesh: Any, session: aiohttp.ClientSession) -> None:
        self.mesh = mesh
        self.session = session
        self.secret = (mesh.folder / "data" / "operators" / "local").read_text().strip()

    async def ask(
        self, method: str, path: str, headers: dict[str, str] | None = None, **options: Any
    ) -> tuple[int, Any]:
        url = f"http://127.0.0.1:{self.mesh.gatekeeper.admin.port}{path}"
        known = {"Authorization": f"Bearer {self.secret}"} if headers is None else headers
        async with self.session.request(method, url, headers=known, **options) as answer:
            return answer.status, await answer.json(content_type=None)


@pytest.fixture
async def operator(mesh: Any) -> AsyncIterator[Operator]:
    async with aiohttp.ClientSession() as session:
        yield Operator(mesh, session)


@pytest.mark.parametrize("path", ["/status", "/decisions", "/policy", "/revocations"])
async def test_nothing_is_told_without_an_operators_secret(operator: Operator, path: str) -> None:
    for headers in (
        {},
        {"Authorization": "Bearer wrong"},
        {"Authorization": f"Basic {operator.secret}"},
        {"Authorization": "Bearer "},
    ):
        status, problem = await operator.ask("GET", path, headers)
        assert (status, problem["code"]) == (401, "unauthenticated")
    assert (await operator.ask("GET", path))[0] == 200


@pytest.mark.parametrize("foreign", [{"Host": "evil.example"}, {"Origin": "http://localhost"}])
async def test_web_pages_are_kept_out(operator: Operator, foreign: dict[str, str]) -> None:
    headers = {"Authorization": f"Bearer {operator.secret}", **foreign}
    status, problem = await operator.ask("GET", "/status", headers)
    assert (status, problem["code"]) == (403, "forbidden")


async def test_decisions_are_listed_newest_first_and_found_by_id(
    mesh: Any, operator: Operator, frame: Make
) -> None:
    caller = mesh.caller()
    await caller.append(frame("secret.a"))
    _, answer = await caller.append(frame("secret.b"))
    await mesh.caller("reader", "reader").ask("GET", "/v1/read?topic=orders.eu&offset=0")
    _, listed = await operator.ask("GET", "/decisions")
    assert [item["topic"] for item in listed["decisions"]] == ["orders.eu", "secret.b", "secret.a"]
    _, listed = await operator.ask("GET", "/decisions?allowed=false&principal=billing&limit=1")
    assert [item["topic"] for item in listed["decisions"]] == ["secret.b"]
    quoted = answer["results"][0]["decision_id"]
    status, found = await operator.ask("GET", f"/decisions/{quoted}")
    assert (status, found["topic"]) == (200, "secret.b")
    status, problem = await operator.ask("GET", "/decisions/nothing")
    assert (status, problem["code"]) == (404, "unknown_decision")
    assert (await operator.ask("GET", "/decisions?allowed=maybe"))[0] == 400
    assert (await operator.ask("GET", "/decisions?limit=99999"))[0] == 400


async def test_the_policy_in_force_is_explained(operator: Operator) -> None:
    question = {"as": "reader", "do": "publish", "on": "orders.eu"}
    status, told = await operator.ask("POST", "/policy/explain", json=question)
    assert status == 200
    assert (told["allowed"], told["reason"]) == (False, "no_rule")
    assert told["nearest"]["rule"] == 'topics."orders.*".publish'
    assert told["policy_sha256"] == operator.mesh.gatekeeper.policies.policy.hash.hex()


async def test_the_policy_page_tells_of_a_refused_file(
    mesh: Any, operator: Operator, wait_until: Any
) -> None:
    _, told = await operator.ask("GET", "/policy")
    assert told["refused"] is None
    mesh.write_policy("nonsense: 1")
    await wait_until(lambda: mesh.gatekeeper.policies.rejection is not None)
    _, told = await operator.ask("GET", "/policy")
    assert "nonsense" in str(told["refused"]["problems"])


async def test_a_revocation_is_recorded_with_its_operator_and_takes_effect(
    mesh: Any, operator: Operator, wait_until: Any
) -> None:
    caller = mesh.caller()
    assert (await caller.ask("GET", "/v1/whoami"))[0] == 200
    record = {"kind": "client", "value": "billing", "reason": "left"}
    status, _ = await operator.ask("POST", "/revocations", json=record)
    assert status == 201
    await wait_until(lambda: mesh.gatekeeper.feed.version == 1)
    assert (await caller.ask("GET", "/v1/whoami"))[0] == 401
    (noted,) = [item for item in mesh.core.records() if item["kind"] == "operator"]
    assert (noted["principal"], noted["revocation"]) == ("operator:local", record)
    head = [head for method, path, head in mesh.core.requests if method == "POST"][-1]
    assert head["Sidegate-Principal"] == "operator:local"
    assert head["Sidegate-Decision"] == noted["decision_id"]
    _, listed = await operator.ask("GET", "/revocations")
    assert listed["version"] == 1
    assert listed["revocations"] == [record]


@pytest.mark.parametrize("record", [{}, {"kind": "x", "value": "y"}, {"kind": "client"}])
async def test_a_revocation_that_makes_no_sense_is_refused(
    mesh: Any, operator: Operator, record: dict[str, str]
) -> None:
    assert (await operator.ask("POST", "/revocations", json=record))[0] == 400
    assert mesh.core.revocations == []


async def test_status_has_what_the_gatekeeper_has_in_its_hands(
    mesh: Any, operator: Operator
) -> None:
    await mesh.caller().ask("GET", "/v1/whoami")
    _, told = await operator.ask("GET", "/status")
    assert told["connections"] == 1
    assert told["core"] == "connected"
    assert told["streams"] == 0


async def test_the_admin_port_has_no_route_of_the_mesh(operator: Operator) -> None:
    for path in ("/v1/append", "/metrics", "/healthz"):
        assert (await operator.ask("GET", path))[0] == 404


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"as": "reader", "do": "fly", "on": "a"},
        {"as": 1, "do": "publish", "on": "a"},
        {"as": "nobody", "do": "publish", "on": "a"},
        {"as": "reader", "do": "publish", "on": "a", "claims": []},
        {"as": "reader", "do": "publish", "on": "a", "scopes": [1]},
        {"as": "reader", "do": "publish", "on": "a", "more": 1},
    ],
)
async def test_a_question_that_makes_no_sense_is_refused(mesh: Any, asked: Any) -> None:
    with pytest.raises(BadRequest):
        explanation(mesh.gatekeeper.policies.policy, asked)
