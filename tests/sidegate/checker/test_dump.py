"""A log can be read without any service, whole or filtered."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from sidegate.checker.dump import Filter, dump_segment, time_text
from sidegate.checker.verify import segments_of

WriteLog = Callable[[], Path]


def dump(root: Path, wanted: Filter, *, records: bool = True) -> list[dict[str, Any]]:
    folder = root / "data" / "core"
    return [
        batch
        for path in segments_of(folder)
        for batch in dump_segment(path, wanted, records=records)
    ]


def test_every_batch_shows_who_sent_it_and_what_it_holds(write_log: WriteLog) -> None:
    batches = dump(write_log(), Filter())
    assert [batch["leaf"] for batch in batches] == list(range(12))
    first = batches[0]
    assert (first["topic"], first["principal"], first["count"]) == ("orders", "billing", 2)
    assert [record["value"] for record in first["records"]] == [{"n": 0}, "needle-0"]
    assert first["appended"] == "2026-01-01T00:00:00Z"


def test_filters_narrow_by_topic_offset_and_time(write_log: WriteLog) -> None:
    root = write_log()
    chosen = dump(root, Filter(topic="payments", first_offset=5, last_offset=6))
    assert [record["offset"] for batch in chosen for record in batch["records"]] == [5, 6]
    assert dump(root, Filter(principal="nobody")) == []
    since = 1_767_225_600_000_010
    assert [batch["leaf"] for batch in dump(root, Filter(since_us=since))] == [10, 11]


def test_batches_can_be_shown_without_records(write_log: WriteLog) -> None:
    assert all("records" not in batch for batch in dump(write_log(), Filter(), records=False))


def test_damage_is_shown_where_it_lies(write_log: WriteLog) -> None:
    root = write_log()
    path = segments_of(root / "data" / "core")[0]
    path.write_bytes(path.read_bytes()[:-3])
    shown = list(dump_segment(path, Filter(), records=True))
    assert "incomplete" in shown[-1]["damage"]


def test_a_time_beyond_the_calendar_is_still_printed() -> None:
    assert time_text(2**63 - 1) == "9223372036854775807 us"
