"""Cursors as the audit reads them, from the records that the core writes."""

import asyncio
from pathlib import Path

from core_log.subscriptions.cursor_log import CursorLog
from spark.control_state import Subscription
from spark.cursors import CURSORS_FOLDER, read_cursors

MAILER = Subscription(3, "app", "mailer", "orders", (2, 0))


def test_a_cursor_is_what_the_core_has_written(tmp_path: Path) -> None:
    async def write() -> None:
        log = await CursorLog.open(tmp_path / CURSORS_FOLDER, on_failure=lambda error: None)
        cursor = log.cursor((3, 0), 2)
        for first, last in ((2, 4), (8, 9), (20, 20), (5, 5)):
            cursor.ack([(first, last)])
            log.moved((3, 0))
            await log.durable([(3, 0)])
        await log.close()

    asyncio.run(write())
    first, second = read_cursors(tmp_path, [MAILER], lambda damage: None)
    assert (first.partition, first.low, first.acked_above) == (0, 6, 3)
    assert (first.owner, first.subscription, first.topic) == ("app", "mailer", "orders")
    assert (second.partition, second.low, second.acked_above) == (1, 0, 0)


def test_a_subscription_without_cursors_stands_where_it_began(tmp_path: Path) -> None:
    found = read_cursors(tmp_path, [MAILER], lambda damage: None)
    assert [(each.partition, each.low) for each in found] == [(0, 2), (1, 0)]


def test_a_pointer_to_nowhere_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / CURSORS_FOLDER).mkdir()
    (tmp_path / CURSORS_FOLDER / "current").write_text("../../elsewhere")
    assert read_cursors(tmp_path, [], lambda damage: None) == []
