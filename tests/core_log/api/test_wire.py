"""What all routes share of the wire."""

from pathlib import Path

import orjson
import pytest
from aiohttp.test_utils import make_mocked_request

from core_log.api import intake, member_messages, reading, stream, stream_route
from core_log.api.problems import TABLE
from core_log.api.wire import FRAMES_TYPE, cause_of, json_response
from core_log.control import channels, names, topics
from core_log.control.control_state import Cause
from core_log.control.revocations import REVOCATIONS_MAX
from core_log.subscriptions import cursor, members, subscriptions
from log_format.limits import NAME_BYTES_MAX

PAGE = (Path(__file__).parents[3] / "docs" / "wire.md").read_text(encoding="utf-8")
ENGINE_ONLY = {"condition_failed"}
"""Conditional appends are the engine's; no route asks for one yet."""


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


@pytest.mark.parametrize("code", sorted({problem.code for _, problem in TABLE} - {"log"}))
def test_the_page_names_every_problem(code: str) -> None:
    assert f"`{code}`" in PAGE


@pytest.mark.parametrize("code", sorted(stream_route.SUBSCRIPTION_CODES.values()))
def test_the_page_names_every_reason_to_end_a_members_stream(code: str) -> None:
    assert f"`{code}`" in PAGE


@pytest.mark.parametrize("code", sorted(intake.CODES - ENGINE_ONLY))
def test_the_page_names_every_reason_to_refuse_a_frame(code: str) -> None:
    assert f"`{code}`" in PAGE


@pytest.mark.parametrize(
    "limit",
    [
        f"{intake.FRAMES_MAX} frames",
        f"{intake.REQUEST_BYTES_MAX // 2**20} MiB",
        f"{reading.READ_BYTES_MAX // 2**20} MiB",
        f"{reading.WAIT_MS_MAX:,}",
        f"within {stream_route.OPEN_S_MAX:.0f} s",
        f"after {stream.HEARTBEAT_S:.0f} s of silence",
        f"{stream.STALL_S_MAX / 60:.0f} minutes",
        f"1 to {topics.PARTITIONS_MAX}",
        f"{topics.TOPICS_MAX:,}",
        f"{REVOCATIONS_MAX:,}",
        (
            f"at most {subscriptions.OWNER_SUBSCRIPTIONS_MAX:,} subscriptions, a\ncore "
            f"{subscriptions.SUBSCRIPTIONS_MAX:,}"
        ),
        (
            f"{subscriptions.LEASE_MS_MIN:,} to {subscriptions.LEASE_MS_MAX:,}, default "
            f"{subscriptions.LEASE_MS:,}"
        ),
        f"at most {subscriptions.SETTINGS_BYTES_MAX // 1024} KiB of JSON",
        f"An owner has at most {channels.OWNER_CHANNELS_MAX:,}, a core\n{channels.CHANNELS_MAX:,}",
        f"({members.MEMBERS_MAX:,} a subscription)",
        f"at most {members.IN_FLIGHT_MAX:,} messages in flight",
        f"at most {cursor.RANGES_MAX:,} acknowledged ranges: at {cursor.RANGES_SLOW:,}",
        f"{cursor.ATTEMPTS_MAX:,} messages per partition have attempts",
        f"At most {member_messages.RANGES_MAX:,} ranges in a message",
        f"(0 to {member_messages.DELAY_MS_MAX:,})",
        f"`{names.NAME_TEXT}`",
        f"`{names.MEMBER_TEXT}`",
    ],
)
def test_the_page_has_the_limits_that_hold(limit: str) -> None:
    assert limit in PAGE
