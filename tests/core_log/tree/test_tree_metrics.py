"""What a scraper learns of the tree."""

from pathlib import Path
from typing import Any


async def test_the_tree_and_its_checkpoints_are_counted(
    start_core: Any, signing_key: Path, frames: Any
) -> None:
    core = await start_core(signing_key=signing_key)
    await core.call("POST", "/v1/topics", json={"name": "orders"})
    await core.append(frames.encoded(), frames.encoded())
    await core.call("GET", "/v1/checkpoint?wait_leaf=1&wait_ms=5000")
    url = f"http://127.0.0.1:{core.core.health.port}/metrics"
    from aiohttp import ClientSession

    async with ClientSession() as session, session.get(url) as answer:
        text = await answer.text()
    for line in (
        "sidegate_core_tree_leaves 2.0",
        "sidegate_core_tree_saved_leaves 2.0",
        "sidegate_core_tree_signed_leaves 2.0",
        "sidegate_core_tree_unsigned_leaves 0.0",
        "sidegate_core_checkpoint_cosignatures 0.0",
        "sidegate_core_tree_refused 0.0",
        "sidegate_core_tree_tiles_mended_total 0.0",
        "sidegate_core_cosignatures_total 0.0",
    ):
        assert line in text
    assert "sidegate_core_checkpoint_age_seconds 0." in text
