"""The log as a stream: every leaf once, none above what is synced."""

from pathlib import Path
from typing import Any

from pyspark.sql.streaming.datasource import ReadAllAvailable

from spark.columns import columns_of
from spark.options import parse_options
from spark.stream_reader import LogStreamReader

ALL = ReadAllAvailable()


def reader(log: Any, **options: str) -> LogStreamReader:
    parsed = parse_options({"path": str(log.folder), **options})
    return LogStreamReader(parsed, columns_of("messages", ("leaf",)))


def leaves(stream: LogStreamReader, start: int, end: int) -> list[int]:
    parts = stream.partitions({"leaf": start}, {"leaf": end})
    return [
        row["leaf"] for part in parts for batch in stream.read(part) for row in batch.to_pylist()
    ]


def test_a_stream_goes_as_far_as_the_log_is_synced_and_never_back(log: Any) -> None:
    for _ in range(5):
        log.add("a")
    log.save_tree(size=3)
    stream = reader(log)
    assert stream.latestOffset(stream.initialOffset(), ALL) == {"leaf": 3}
    assert stream.latestOffset({"leaf": 4}, ALL) == {"leaf": 4}


def test_batches_are_bounded_and_available_now_ends_where_it_began(log: Any) -> None:
    for _ in range(5):
        log.add("a")
    log.save_tree()
    stream = reader(log, leaves_per_trigger="2")
    stream.prepareForTriggerAvailableNow()
    log.add("a")
    log.save_tree()
    seen, at = [], {"leaf": 0}
    while (end := stream.latestOffset(at, ALL)) != at:
        seen.append(end["leaf"])
        at = end
    assert seen == [2, 4, 5]


def test_the_same_leaves_are_the_same_rows_across_segments(log: Any) -> None:
    for number in range(9):
        log.add("a")
        if number % 3 == 2:
            log.roll()
    stream = reader(log)
    assert leaves(stream, 2, 7) == leaves(stream, 2, 7) == [2, 3, 4, 5, 6]
    assert leaves(stream, 7, 7) == []


def test_a_real_stream_reads_every_message_once_across_restarts(
    spark: Any, log: Any, tmp_path: Path
) -> None:
    def run() -> None:
        frame = spark.readStream.format("sidegate").option("columns", "leaf,offset")
        query = (
            frame.load(str(log.folder))
            .writeStream.option("checkpointLocation", str(tmp_path / "state"))
            .trigger(availableNow=True)
            .start(str(tmp_path / "out"), format="parquet")
        )
        query.awaitTermination()

    for _ in range(3):
        log.add("a", [b"x"] * 2)
    log.save_tree()
    run()
    log.add("a", [b"x"] * 2)
    log.save_tree()
    run()
    found = spark.read.parquet(str(tmp_path / "out")).orderBy("offset").collect()
    assert [row.offset for row in found] == list(range(8))
