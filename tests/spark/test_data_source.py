"""`spark.read.format("sidegate")` in a real Spark."""

import gc
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as f
from pyspark.testing import assertDataFrameEqual, assertSchemaEqual

from log_format.envelope import Codec
from spark.columns import MESSAGES, spark_schema
from spark.data_source import SidegateDataSource

ROOT = Path(__file__).parents[2]

JOB = """
import sys
from pyspark.sql import SparkSession
from spark.session import register

session = register(SparkSession.builder.getOrCreate())
print("rows:", session.read.format("sidegate").load(sys.argv[1]).count())
session.stop()
"""


def test_a_log_reads_as_one_row_per_message(log: Any, read: Any, spark: SparkSession) -> None:
    log.add("orders", [b"a", b"bc"], keys=[b"k", None], headers=[b'{"h":"1"}', None])
    log.roll()
    log.add("orders", [b"d"], codec=Codec.ZSTD)
    log.add("_audit", [b"{}"])
    frame = read()
    assertSchemaEqual(frame.schema, spark_schema(MESSAGES))
    expected = spark.createDataFrame(
        [
            ("orders", 0, 0, "k", "a", 1, '{"h":"1"}', "2026-01-01 00:00:00", 0),
            ("orders", 0, 1, None, "bc", 2, None, "2026-01-01 00:00:00", 0),
            ("orders", 0, 2, None, "d", 1, None, "2026-01-01 00:00:01", 1),
            ("_audit", 0, 0, None, "{}", 2, None, "2026-01-01 00:00:02", 2),
        ],
        "topic string, partition int, offset bigint, key string, value string, size int,"
        " headers string, append_time string, leaf bigint",
    )
    shown = frame.select(
        "topic", "partition", "offset", f.col("key").cast("string").alias("key"),
        f.col("value").cast("string").alias("value"), "size", "headers",
        f.col("append_time").cast("string").alias("append_time"), "leaf",
    )  # fmt: skip
    assertDataFrameEqual(shown, expected)


def test_a_frame_that_is_used_twice_with_filters_is_right_both_times(log: Any, read: Any) -> None:
    log.add("a", [b"1"] * 10)
    log.add("b", [b"1"] * 5)
    frame = read(columns="topic,offset")
    assert frame.filter("topic = 'a'").count() == 10
    assert frame.filter("topic = 'b' and offset >= 3").count() == 2
    assert frame.count() == 15


def test_ranges_columns_and_topics_are_options(log: Any, read: Any) -> None:
    log.add("a", [b"1"] * 10)
    log.add("b", [b"1"] * 5)
    frame = read(topics="a", from_=3, to=5, columns="offset")
    assert [row.asDict() for row in frame.collect()] == [{"offset": 3}, {"offset": 4}]
    assert read(from_="2026-01-01T00:00:01Z").count() == 5


def test_a_schema_of_the_users_own_is_honoured_or_refused(log: Any, spark: SparkSession) -> None:
    log.add("a", [b"xyz"])
    reader = spark.read.format("sidegate")
    assert reader.schema("size int, topic string").load(str(log.folder)).collect() == [(3, "a")]
    with pytest.raises(PySparkException, match="size is int, not string"):
        reader.schema("size string").load(str(log.folder)).collect()


def test_an_empty_log_has_no_rows(log: Any, read: Any) -> None:
    log.roll()
    assert read().count() == 0


def test_damage_fails_a_read_with_file_and_position_unless_it_is_to_be_skipped(
    log: Any, read: Any
) -> None:
    for _ in range(3):
        log.add("a")
    log.damage(1)
    with pytest.raises(PySparkException, match=r"00.seg at byte \d+ \(a/0 offsets 1 to 1\)"):
        read().collect()
    assert read(damage="skip").count() == 2
    assert read(verify="off").count() == 3
    rows = read(rows="batches", columns="leaf,damage").collect()
    assert {(row.leaf, row.damage) for row in rows} == {(0, None), (1, "body_hash"), (2, None)}


def test_verify_tree_compares_with_the_logs_own_tree(log: Any, read: Any) -> None:
    log.add("a")
    log.add("a")
    log.leaves[0] = bytes(32)
    log.save_tree()
    assert read(rows="batches", verify="hash").filter("damage is not null").count() == 0
    (row,) = read(rows="batches", verify="tree").filter("damage is not null").collect()
    assert (row.damage, row.leaf) == ("tree_leaf", 0)


def test_only_what_is_synced_is_read_when_asked(log: Any, read: Any) -> None:
    for _ in range(3):
        log.add("a")
    log.save_tree(size=2)
    assert read(until="synced").count() == 2
    assert read().count() == 3


def test_bad_options_and_a_missing_log_say_what_to_do(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(PySparkException, match="there is no such option"):
        spark.read.format("sidegate").option("colums", "x").load(str(tmp_path)).count()
    with pytest.raises(PySparkException, match="holds no log"):
        spark.read.format("sidegate").load(str(tmp_path)).count()


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """What a cluster is given: `spark` and `log_format` in one zip."""
    path = tmp_path / "sidegate-spark.zip"
    with zipfile.ZipFile(path, "w") as file:
        for package in ("spark", "log_format"):
            for module in (ROOT / package).rglob("*.py"):
                file.write(module, module.relative_to(ROOT))
    return path


def test_the_two_packages_alone_make_the_data_source(archive: Path, tmp_path: Path) -> None:
    """No `hosting`, no `sidegate`: a cluster has only the zip and the pinned packages."""
    code = "import sys, spark.session; print([m for m in sys.modules if m in %r])"
    others = ("hosting", "core_log", "gatekeeper", "sidecar", "sidegate", "aiohttp", "click")
    answer = subprocess.run(
        [sys.executable, "-P", "-S", "-c", f"import sys; sys.path[:0] = {sys.path!r};"
         f" sys.path.insert(0, {str(archive)!r}); " + code % (others,)],
        cwd=tmp_path, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert answer.stdout.strip() == "[]"


@pytest.mark.long
@pytest.mark.parametrize("java", ["of this machine", "bundled"])
def test_a_submitted_job_reads_with_the_zip_alone(
    log: Any, archive: Path, tmp_path: Path, java: str
) -> None:
    log.add("a", [b"1"] * 7)
    (tmp_path / "job.py").write_text(JOB)
    import os

    import pyspark

    from spark.java import find_java

    environ = dict(os.environ)
    if java == "bundled":
        environ |= {"JAVA_HOME": str(find_java({"PATH": ""}, tmp_path).home)}
    environ |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    answer = subprocess.run(
        [submit, "--master", "local[1]", "--driver-memory", "512m", "--py-files", archive,
         tmp_path / "job.py", str(log.folder)],
        cwd=tmp_path, env=environ, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "rows: 7" in answer.stdout, answer.stderr[-3000:]


def test_a_read_outside_of_a_task_leaves_the_garbage_collector_alone(log: Any) -> None:
    log.add("orders", [b"a"])
    source = SidegateDataSource({"path": str(log.folder)})
    reader = source.reader(source.schema())
    frozen = gc.get_freeze_count()
    batches = [batch for each in reader.partitions() for batch in reader.read(each)]
    assert sum(batch.num_rows for batch in batches) == 1
    assert gc.get_freeze_count() == frozen
