"""The log of cursors: durable before told, one sync for many, bounded for ever."""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from core_log.log.files import OsFiles
from core_log.subscriptions.cursor import Place
from core_log.subscriptions.cursor_log import CURRENT_NAME, OPTIONS, CursorLog, CursorsDamaged
from core_log.subscriptions.tries import Try

SMALL = replace(OPTIONS, disk_reserve_bytes=0, segment_bytes=64 * 1024)
Open = Callable[..., Any]


@pytest.fixture
async def open_log(tmp_path: Path) -> AsyncIterator[Open]:
    opened: list[CursorLog] = []

    async def open_log(**settings: Any) -> CursorLog:
        settings = {"options": SMALL, "on_failure": lambda _: None, **settings}
        cursors = await CursorLog.open(tmp_path / "cursors", **settings)
        opened.append(cursors)
        return cursors

    yield open_log
    for cursors in opened:
        await cursors.close()


async def test_what_was_told_to_be_durable_is_there_after_a_restart(open_log: Open) -> None:
    cursors = await open_log()
    cursor = cursors.cursor((7, 0), 17)
    cursor.ack([(17, 20), (25, 26)])
    one, two = (Try(each, each, 500, "the app answered 500") for each in (1, 2))
    cursor.count_attempts({22: 2}, {22: (one,)})
    told: list[dict[Any, int]] = []
    cursors.moved((7, 0), lambda lows: told.append(dict(lows)))
    assert told == []
    await cursors.durable([])
    assert told == [{(7, 0): 21}]
    cursor.ack([(21, 21)])
    cursor.given_again(2)
    cursor.count_attempts({22: 3}, {22: (two,)})
    await cursors.durable([(7, 0)])
    await cursors.close()
    again = await open_log()
    place = Place(22, ((25, 26),), {22: 3}, redelivered=2, history={22: (one, two)})
    assert again.cursor((7, 0), 0).place == place
    assert again.run == cursors.run + 1


async def test_many_acknowledgements_share_a_sync(open_log: Open) -> None:
    cursors = await open_log()
    told: list[int] = []
    for number in range(10_000):
        key = (1 + number % 100, 0)
        cursor = cursors.cursor(key, 0)
        cursor.ack([(number // 100, number // 100)])
        cursors.moved(key, lambda lows: told.append(len(lows)))
    await cursors.durable([])
    assert len(told) == 10_000
    assert cursors.batch <= 2


async def test_changes_that_come_while_a_sync_runs_are_written_with_the_next(
    open_log: Open,
) -> None:
    cursors = await open_log()
    cursor = cursors.cursor((1, 0), 0)
    lows: list[int] = []

    def told(written: Any) -> None:
        lows.append(written[1, 0])

    cursor.ack([(0, 0)])
    cursors.moved((1, 0), told)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    cursor.ack([(1, 1)])
    cursors.moved((1, 0), told)
    await cursors.durable([])
    assert lows == [1, 2], "each is told of what is durable, not of what is merely known"


async def test_it_does_not_grow_without_bound(open_log: Open, tmp_path: Path) -> None:
    cursors = await open_log(growth_bytes=20_000)
    cursor = cursors.cursor((1, 0), 0)
    folders: set[str] = set()
    for offset in range(300):
        cursor.ack([(offset, offset)])
        await cursors.durable([(1, 0)])
        folders.add((tmp_path / "cursors" / CURRENT_NAME).read_text())
    assert folders == {"a", "b"}
    size = sum(file.stat().st_size for file in (tmp_path / "cursors").rglob("*") if file.is_file())
    assert size < 200_000
    await cursors.close()
    again = await open_log()
    assert again.cursor((1, 0), 0).place == Place(300)


async def test_a_crash_while_it_begins_anew_loses_nothing(open_log: Open, tmp_path: Path) -> None:
    class NoRename(OsFiles):
        fails = False

        def rename(self, old: Path, new: Path) -> None:
            if self.fails and new.name == CURRENT_NAME:
                raise OSError(28, "no room")
            super().rename(old, new)

    files = NoRename()
    cursors = await open_log(growth_bytes=1, files=files)
    cursor = cursors.cursor((1, 0), 0)
    NoRename.fails = True
    before = (tmp_path / "cursors" / CURRENT_NAME).read_text()
    for offset in range(5):
        cursor.ack([(offset, offset)])
        await cursors.durable([(1, 0)])
    assert (tmp_path / "cursors" / CURRENT_NAME).read_text() == before
    await cursors.close()
    again = await open_log()
    assert again.cursor((1, 0), 0).place == Place(5)


async def test_cursors_of_what_is_gone_are_forgotten(open_log: Open) -> None:
    cursors = await open_log()
    for number in (1, 2, 3):
        cursors.cursor((number, 0), 0).ack([(0, 4)])
        cursors.moved((number, 0))
    await cursors.durable([])
    cursors.forget({2})
    assert len(cursors) == 2
    await cursors.close()
    again = await open_log()
    again.keep({1})
    assert len(again) == 1
    assert again.cursor((2, 0), 0).place == Place(0)


async def test_a_full_disk_only_delays_what_is_told(
    open_log: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("core_log.subscriptions.cursor_log.RETRY_S", 0.01)

    class Filling(OsFiles):
        full = False

        def free_bytes(self, directory: Path) -> int:
            return 0 if Filling.full else super().free_bytes(directory)

    options = replace(SMALL, disk_reserve_bytes=1024)
    cursors = await open_log(files=Filling(), options=options)
    cursor = cursors.cursor((1, 0), 0)
    Filling.full = True
    last = 0
    waiting = asyncio.ensure_future(cursors.durable([]))
    while (await asyncio.wait([waiting], timeout=0.5))[0]:
        # The log looks at the room from time to time only.
        cursor.ack([(last, last)])
        last += 1
        waiting = asyncio.ensure_future(cursors.durable([(1, 0)]))
        await asyncio.sleep(0.01)
    Filling.full = False
    async with asyncio.timeout(60):
        await waiting
    await cursors.close()
    assert (await open_log()).cursor((1, 0), 0).place == Place(last)


@pytest.mark.parametrize("content", ["c", "", "../x"])
async def test_a_file_that_names_no_folder_stops_the_start(
    open_log: Open, tmp_path: Path, content: str
) -> None:
    (tmp_path / "cursors").mkdir()
    (tmp_path / "cursors" / CURRENT_NAME).write_text(content)
    with pytest.raises(CursorsDamaged, match="restore the folder `cursors`"):
        await open_log()
