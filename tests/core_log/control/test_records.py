"""Records of the core's own logs."""

from pathlib import Path

import pytest

from core_log.control.records import (
    RecordsFailed,
    append_records,
    chunks,
    read_frames,
    record_frame,
)
from core_log.log.embedded import EmbeddedEngine
from core_log.log.log_errors import DiskFull
from core_log.log.options import LogOptions

OPTIONS = LogOptions(require_provenance=False, check_sequences=False, disk_reserve_bytes=0)


async def test_records_read_back_in_order_up_to_the_end_that_was_asked_for(tmp_path: Path) -> None:
    engine = await EmbeddedEngine.open(tmp_path, OPTIONS, on_failure=lambda _: None)
    try:
        for number in range(4):
            records = [b'{"n":%d}' % number] * 2
            await append_records(engine, record_frame("_own", records, 7, key=b"k", identity=b"i"))
        frames = await read_frames(engine, "_own", 2, 6)
        columns = [frame.columns() for frame in frames]
        assert [list(each.value) for each in columns] == [[b'{"n":1}'] * 2, [b'{"n":2}'] * 2]
        assert (columns[0].key[0], columns[0].id[0]) == (b"k", b"i")
        assert await read_frames(engine, "_own", 8, 8) == []
    finally:
        await engine.close()


async def test_what_can_not_be_made_durable_is_an_error(tmp_path: Path) -> None:
    options = LogOptions(require_provenance=True, disk_reserve_bytes=0)
    engine = await EmbeddedEngine.open(tmp_path / "a", options, on_failure=lambda _: None)
    with pytest.raises(RecordsFailed):
        await append_records(engine, record_frame("_own", [b"{}"], 7))
    await engine.close()
    options = LogOptions(require_provenance=False, disk_reserve_bytes=2**60)
    engine = await EmbeddedEngine.open(tmp_path / "b", options, on_failure=lambda _: None)
    with pytest.raises(DiskFull):
        await append_records(engine, record_frame("_own", [b"{}"], 7))
    await engine.close()


def test_chunks_are_about_as_long_as_asked_and_lose_nothing() -> None:
    records = [bytes(size) for size in (3, 3, 3, 9, 1)]
    assert [list(map(len, chunk)) for chunk in chunks(records, 6)] == [[3, 3], [3], [9], [1]]
    assert list(chunks([], 6)) == []
