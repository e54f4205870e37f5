import json
from typing import Any

import pytest

TOPIC = {
    "name": "orders",
    "partitions": 3,
    "strategy": "round_robin",
    "retention": {"age_ms": 3600000, "bytes": None},
    "storage": "disk",
    "delivery": "broadcast",
    "offsets": [
        {"partition": 0, "start_offset": 2, "end_offset": 10},
        {"partition": 1, "start_offset": 0, "end_offset": 5},
    ],
}


@pytest.fixture
def sidecar(peer: Any) -> Any:
    peer.answer("GET /topics", 200, {"topics": [TOPIC]})
    peer.answer("POST /topics", 201, TOPIC)
    peer.answer("GET /topics/orders", 200, TOPIC)
    peer.answer("PATCH /topics/orders", 200, TOPIC)
    peer.answers["DELETE /topics/orders"] = (204, b"")
    return peer


def test_topics_are_listed_with_how_much_they_hold(command: Any, sidecar: Any) -> None:
    result = command("topics", "list", "--url", sidecar.url)
    assert result.returncode == 0
    head, row = result.stdout.splitlines()
    assert head.split()[0] == "TOPIC"
    assert row.split() == ["orders", "3", "round_robin", "disk", "broadcast", "13"]


def test_an_empty_list_says_so(command: Any, peer: Any) -> None:
    peer.answer("GET /topics", 200, {"topics": []})
    assert command("topics", "list", "--url", peer.url).stdout == "There are no topics.\n"


def test_json_is_passed_through(command: Any, sidecar: Any) -> None:
    for arguments in (["list"], ["describe", "orders"], ["create", "orders"]):
        result = command("topics", *arguments, "--json", "--url", sidecar.url)
        assert isinstance(json.loads(result.stdout), dict)


def test_only_the_settings_that_were_named_are_sent(command: Any, sidecar: Any) -> None:
    command("topics", "create", "orders", "--url", sidecar.url)
    command(
        *("topics", "create", "orders", "--partitions", "3", "--strategy", "round_robin"),
        *("--retain-age", "7d", "--retain-bytes", "1GiB", "--url", sidecar.url),
    )
    command("topics", "alter", "orders", "--retain-age", "none", "--url", sidecar.url)
    assert [asked.document for asked in sidecar.asked] == [
        {"name": "orders"},
        {
            "name": "orders",
            "partitions": 3,
            "strategy": "round_robin",
            "retention": {"age_ms": 604800000, "bytes": 1073741824},
        },
        {"retention": {"age_ms": None}},
    ]


def test_a_topic_is_described(command: Any, sidecar: Any) -> None:
    text = command("topics", "describe", "orders", "--url", sidecar.url).stdout
    assert "retained for    1h" in text
    assert "retained bytes  unlimited" in text
    assert "partition 0     offsets 2 up to 10" in text


def test_altering_nothing_is_a_usage_error(command: Any, sidecar: Any) -> None:
    assert command("topics", "alter", "orders", "--url", sidecar.url).returncode == 2


@pytest.mark.parametrize(
    "option", [["--retain-age", "7 weeks"], ["--retain-bytes", "much"], ["--partitions", "0"]]
)
def test_a_setting_that_can_not_be_read_is_a_usage_error(
    command: Any, sidecar: Any, option: list[str]
) -> None:
    assert command("topics", "create", "orders", *option, "--url", sidecar.url).returncode == 2


def test_deleting_asks_first(command: Any, sidecar: Any) -> None:
    result = command("topics", "delete", "orders", "--url", sidecar.url, stdin="n\n")
    assert result.returncode == 1
    assert sidecar.asked == []
    result = command("topics", "delete", "orders", "--url", sidecar.url, stdin="y\n")
    assert result.returncode == 0
    assert command("topics", "delete", "orders", "--yes", "--url", sidecar.url).returncode == 0
    assert [asked.method for asked in sidecar.asked] == ["DELETE", "DELETE"]


def test_a_name_can_not_leave_its_place_in_the_path(command: Any, sidecar: Any) -> None:
    command("topics", "describe", "../status?x", "--url", sidecar.url)
    assert sidecar.asked[0].path == "/topics/..%2Fstatus%3Fx"


def test_storage_is_offered_only_where_it_can_be_chosen(command: Any, sidecar: Any) -> None:
    refused = command("topics", "alter", "orders", "--storage", "memory", "--url", sidecar.url)
    assert refused.returncode == 2
    assert "No such option" in refused.stderr
    assert "--storage" in command("topics", "create", "--help").stdout
