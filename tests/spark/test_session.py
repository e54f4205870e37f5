"""The session that the audit runs in."""

import os
import sys
from typing import Any

from pyspark.sql import SparkSession


def test_the_session_has_what_the_audit_needs(spark: SparkSession) -> None:
    settings = spark.conf
    assert settings.get("spark.python.unix.domain.socket.enabled") == "true"
    assert settings.get("spark.sql.session.timeZone") == "UTC"
    assert settings.get("spark.ui.enabled") == "false"
    assert os.environ["PYSPARK_PYTHON"] == sys.executable
    assert os.environ["JAVA_HOME"]


def test_the_format_is_registered(spark: SparkSession, log: Any) -> None:
    log.add("t")
    assert spark.read.format("sidegate").load(str(log.folder)).count() == 1
