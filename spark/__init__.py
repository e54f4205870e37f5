"""The audit's side of Sidegate: reads the log's files with PySpark.

May import `log_format` and PySpark; shares nothing else with the services that write the log.
Holds no code yet: `sidegate log verify` and `sidegate log dump` read the same files without Spark.
"""
