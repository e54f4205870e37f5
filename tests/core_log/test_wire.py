"""What all routes share of the wire."""

import orjson
from aiohttp.test_utils import make_mocked_request

from core_log.control_state import Cause
from core_log.wire import FRAMES_TYPE, cause_of, json_response
from log_format.limits import NAME_BYTES_MAX


def test_a_gatekeepers_headers_say_on_whose_behalf_it_asks() -> None:
    headers = {"Sidegate-Principal": "billing", "Sidegate-Decision": "d-1"}
    assert cause_of(make_mocked_request("GET", "/", headers=headers)) == Cause("billing", "d-1")
    assert cause_of(make_mocked_request("GET", "/")) == Cause(None, None)
    assert cause_of(make_mocked_request("GET", "/", headers={"Sidegate-Principal": ""})) == Cause()


def test_a_name_is_cut_to_what_a_record_may_hold() -> None:
    headers = {"Sidegate-Principal": "ä" * NAME_BYTES_MAX}
    principal = cause_of(make_mocked_request("GET", "/", headers=headers)).principal
    assert principal == "ä" * (NAME_BYTES_MAX // 2)


def test_answers_are_json() -> None:
    answer = json_response({"a": 1}, status=201, headers={"ETag": '"1"'})
    assert (answer.status, answer.content_type, answer.headers["ETag"]) == (
        201,
        "application/json",
        '"1"',
    )
    assert isinstance(answer.body, bytes)
    assert orjson.loads(answer.body) == {"a": 1}
    assert FRAMES_TYPE == "application/vnd.sidegate.frames"
