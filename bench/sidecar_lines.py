"""Lines: committed messages a second, against Redis Streams that sync every write.

python -m bench.sidecar_lines [--seconds 8] [--rounds 5] [--folder DIR]

The whole mesh as `make up` runs it. Six connections post bodies of 5,000 lines of 90 bytes, orders
that all differ, to one partition; a message counts when its request was answered `committed`. The
peer is Redis 7 with `appendfsync always` and `XADD` 64 deep, one message a command, same disk.
"""

import argparse
import asyncio
import random
import sys
import time
from pathlib import Path

import orjson
import uvloop

from bench.development_mesh import DevelopmentMesh
from bench.lean_http import LeanConnection
from bench.redis_streams import RedisStreams, missing
from bench.runner import RESULTS, Bar, compare, report, take_turns

CONNECTIONS = 6
LINES = 5000
LINE_BYTES = 90
SEED = 5
REDIS_MESSAGES = 100_000
MILLION = "a million a second"
TIMES_REDIS = 2.0


def orders(count: int) -> list[bytes]:
    """So many orders as JSON, no two alike, each of 90 bytes."""
    chance = random.Random(SEED)
    found = []
    for number in range(count):
        total, customer = chance.randrange(100_000) / 100, chance.getrandbits(64)
        text = f'{{"order_id":{number},"total":{total},"currency":"EUR","customer":"{customer:x}"'
        found.append((text.ljust(LINE_BYTES - 7, " ") + ',"n":1}').encode())
    return found


class Lines:
    """The sidecar's `/lines`."""

    name = "sidecar /lines"

    def __init__(self, mesh: DevelopmentMesh, seconds: float) -> None:
        self._mesh = mesh
        self._seconds = seconds
        self._body = b"\n".join(orders(LINES))

    def __enter__(self) -> "Lines":
        return self

    def __exit__(self, *error: object) -> None:
        """The mesh outlives the rounds."""

    def run(self) -> float:
        """Committed messages a second."""
        return uvloop.run(self._measure())

    async def _measure(self) -> float:
        opened = [
            await LeanConnection.open(self._mesh.host, self._mesh.port, None)
            for _ in range(CONNECTIONS)
        ]
        await self._post(opened[0])
        begin = time.perf_counter()

        async def post(connection: LeanConnection) -> int:
            count = 0
            while time.perf_counter() - begin < self._seconds:
                count += await self._post(connection)
            return count

        total = sum(await asyncio.gather(*map(post, opened)))
        elapsed = time.perf_counter() - begin
        for connection in opened:
            connection.close()
        return total / elapsed

    async def _post(self, connection: LeanConnection) -> int:
        path = "/publish/bench.lines/lines?ack=core"
        answer = orjson.loads(await connection.post(path, "text/plain", [self._body]))
        if answer["durability"] != "committed" or answer["count"] != LINES:
            raise RuntimeError(f"not committed: {answer}")
        return LINES


class Constant:
    """A figure that never changes, so that a limit can stand beside a peer."""

    def __init__(self, name: str, figure: float) -> None:
        self.name = name
        self._figure = figure

    def __enter__(self) -> "Constant":
        return self

    def __exit__(self, *error: object) -> None:
        """Nothing was started."""

    def run(self) -> float:
        """The figure."""
        return self._figure


def main() -> int:
    """Measure, print and write the ratios; 1 if one falls short."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    without = missing()
    with DevelopmentMesh(arguments.folder) as mesh:
        contenders: list[Lines | Constant | RedisStreams] = [
            Lines(mesh, arguments.seconds),
            Constant(MILLION, 1e6),
        ]
        bars = [Bar(Lines.name, MILLION, 1.0)]
        if without is None:
            contenders.append(RedisStreams(arguments.folder, orders(1)[0], REDIS_MESSAGES))
            bars.append(Bar(Lines.name, RedisStreams.name, TIMES_REDIS))
        figures = take_turns(contenders, arguments.rounds, print)
    ratios = [compare(figures, bar) for bar in bars]
    reached = report("sidecar lines", "messages/s", figures, ratios)
    if without is not None:
        print(f"  SKIPPED: the comparison with Redis; {without}")
    return 0 if reached else 1


if __name__ == "__main__":
    sys.exit(main())
