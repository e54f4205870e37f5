"""Places in the past are held against what the policy lets see."""

import time
from types import SimpleNamespace
from typing import Any

import orjson
import pytest

from gatekeeper.api.places import Places
from gatekeeper.core.upstream import Answer
from gatekeeper.errors import CoreUnavailable


class Asked:
    """A core that knows one topic."""

    def __init__(self, status: int = 200, body: object = None) -> None:
        self.status, self.body, self.paths = status, body, []

    async def ask(self, _method: str, path: str, _behalf: Any, *, query: Any) -> Answer:
        self.paths.append((path, query))
        return Answer(self.status, {}, orjson.dumps(self.body))


class TooOld(Exception):
    pass


def places(core: Any) -> Places:
    gate: Any = SimpleNamespace(refuse_age=lambda _ruling: TooOld())
    return Places(gate=gate, core=core)


def ruling(max_age_s: float | None) -> Any:
    return SimpleNamespace(max_age_s=max_age_s, topic="orders")


EXTENTS = {
    "partitions": [
        {"partition": 0, "start_offset": 0, "end_offset": 90, "offset": 40},
        {"partition": 1, "start_offset": 50, "end_offset": 90, "offset": 50},
    ]
}


@pytest.mark.parametrize(
    ("start", "unnamed_move", "allowed"),
    [
        ("earliest", True, False),
        ({"offsets": {"0": 40}}, True, True),
        ({"offsets": {"1": 50}}, True, False),
        ({"offsets": {"1": 50}}, False, True),
        ({"offsets": {"1": 3}}, False, True),
        ({"offsets": {"0": 39}}, False, False),
    ],
)
async def test_a_place_is_compared_with_the_offset_of_the_oldest_time(
    start: Any, *, unnamed_move: bool, allowed: bool
) -> None:
    core = Asked(body=EXTENTS)
    asking = places(core).require(ruling(600.0), None, start, unnamed_move=unnamed_move)  # type: ignore[arg-type]
    if allowed:
        await asking
    else:
        with pytest.raises(TooOld):
            await asking
    (path, query) = core.paths[0]
    assert path == "/v1/topics/orders/offsets"
    assert abs(int(query["time_us"]) - (time.time() - 600) * 1e6) < 60e6


async def test_nothing_is_asked_where_nothing_is_bounded() -> None:
    core = Asked()
    await places(core).require(ruling(None), None, "earliest", unnamed_move=True)  # type: ignore[arg-type]
    await places(core).require(ruling(5.0), None, "latest", unnamed_move=True)  # type: ignore[arg-type]
    assert core.paths == []


async def test_an_unknown_topic_is_the_cores_to_name_and_nonsense_is_its_fault() -> None:
    core = Asked(404)
    await places(core).require(ruling(5.0), None, "earliest", unnamed_move=True)  # type: ignore[arg-type]
    with pytest.raises(CoreUnavailable):
        await places(Asked(body={"partitions": [{}]})).require(
            ruling(5.0),
            None,
            "earliest",
            unnamed_move=True,  # type: ignore[arg-type]
        )
