"""A Spark session with what the audit needs set: the right Java and Python, and no surprises.

For `local[*]`. On a cluster `spark-submit` makes the session, and a job only calls `register`.
"""

import atexit
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from spark.data_source import SidegateDataSource
from spark.java import find_java

DRIVER_MEMORY: Final = "2g"
"""The audit of ten million messages fits into this; rows stream, only sums stay."""

TOLD_CHARS_MAX: Final = 2000
"""Of what Java says when it does not start: its first error and where it came from."""
_STDERR: Final = 2

_SETTINGS: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    # 14 % faster than a TCP socket between the JVM and its Python workers.
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # Checks group by few keys; two hundred partitions of nothing would cost more than the work.
    "spark.sql.shuffle.partitions": "8",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}

QUICK_BYTES_MAX: Final = 1024 * 1024 * 1024
"""Logs up to this size are audited faster by a Java that starts fast than by one that runs fast:
of 44 s of processor time for a small log, 24 s were spent on compiling queries."""
_ARROW_JAVA: Final = (
    "-Darrow.enable_unsafe_memory_access=true -Darrow.enable_null_check_for_get=false"
)
"""Spark reads what Arrow's lengths say; checking each access again is a tenth of a scan's cost."""
_JAVA: Final = f"-XX:+UseParallelGC {_ARROW_JAVA}"
_QUICK_JAVA: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_QUICK: Final = {
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}

_LOGGING: Final = """rootLogger.level = off
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %p %c{1}: %m%n
"""
"""What goes wrong is raised as an exception; the same again as a page of Java helps nobody."""


class SparkFailed(Exception):
    """Spark could not be started. The message has what Java said."""


def make_session(
    *,
    cores: str = "*",
    memory: str = DRIVER_MEMORY,
    scratch: Path | None = None,
    quick: bool = False,
    settings: dict[str, str] | None = None,
) -> SparkSession:
    """Start Spark in this process and register the data source.

    `scratch` is a folder for what Spark writes while it runs; a temporary one otherwise. Sets
    JAVA_HOME and PYSPARK_PYTHON of this process, which is how Spark is told. `quick` is for little
    work: it starts fast and then runs slower.
    """
    if scratch is None:
        scratch = Path(tempfile.mkdtemp(prefix="sidegate-audit-"))
        atexit.register(shutil.rmtree, scratch, ignore_errors=True)
    os.environ["JAVA_HOME"] = str(find_java(os.environ, scratch).home)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    # Otherwise Spark looks its own name up, which fails on machines without a working resolver.
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    quiet = scratch / "log4j2.properties"
    quiet.write_text(_LOGGING, encoding="utf-8")
    builder = SparkSession.Builder().appName("sidegate audit").master(f"local[{cores}]")
    chosen = {
        **_SETTINGS,
        **(_QUICK if quick else {}),
        "spark.driver.memory": memory,
        "spark.local.dir": str(scratch),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.driver.extraJavaOptions": (
            f"-Dlog4j2.configurationFile={quiet.as_uri()} {_QUICK_JAVA if quick else _JAVA}"
        ),
        **(settings or {}),
    }
    for name, value in chosen.items():
        builder = builder.config(name, value)
    noise = scratch / "spark.log"
    try:
        with _stderr_to(noise):
            session = builder.getOrCreate()
    except PySparkRuntimeError as error:
        told = noise.read_text(encoding="utf-8", errors="replace")[-TOLD_CHARS_MAX:].strip()
        raise SparkFailed(f"Spark did not start: {error}. Java said: {told}") from error
    return register(session)


@contextmanager
def _stderr_to(path: Path) -> Iterator[None]:
    """What is started meanwhile writes its standard error to a file.

    The JVM and its Python workers report there what is raised as an exception anyway, and broken
    pipes of workers whose rows nobody wanted any more.
    """
    sys.stderr.flush()
    kept = os.dup(_STDERR)
    try:
        with path.open("wb") as file:
            os.dup2(file.fileno(), _STDERR)
        yield
    finally:
        os.dup2(kept, _STDERR)
        os.close(kept)


def register(session: SparkSession) -> SparkSession:
    """Make `session.read.format("sidegate")` work."""
    session.dataSource.register(SidegateDataSource)
    return session
