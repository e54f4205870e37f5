"""One request on its way: on whose behalf the core is asked, and plain answers."""

from typing import Any

import orjson
import pytest

from gatekeeper.api.call import Call, core_object, json_answer, passed_on
from gatekeeper.api.gate import Caller
from gatekeeper.api.routes import ROUTES
from gatekeeper.core.upstream import Answer
from gatekeeper.errors import CoreUnavailable


def test_the_core_is_asked_for_the_caller_and_its_decision() -> None:
    nothing: Any = None
    caller = Caller(nothing, "billing", nothing, 1, "request-1")
    behalf = Call(nothing, ROUTES[0], caller, "", {}).behalf()
    assert behalf.headers() == {
        "Sidegate-Principal": "billing",
        "Sidegate-Decision": "",
        "Sidegate-Request-Id": "request-1",
    }


def test_answers_are_json_or_the_cores_own() -> None:
    answer = json_answer({"a": 1})
    assert orjson.loads(bytes(answer.body or b"")) == {"a": 1}  # type: ignore[arg-type]
    passed = passed_on(Answer(409, {"ETag": '"3"'}, b"x"))
    assert (passed.status, passed.headers["ETag"], passed.body) == (409, '"3"', b"x")


@pytest.mark.parametrize("body", [b"", b"[]", b"{"])
def test_an_answer_that_is_no_object_is_no_answer(body: bytes) -> None:
    with pytest.raises(CoreUnavailable):
        core_object(Answer(200, {}, body))
    assert core_object(Answer(200, {}, b'{"a":1}')) == {"a": 1}
