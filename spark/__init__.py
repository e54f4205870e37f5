"""The audit: reads the log's files with PySpark and says what is in them, and what is wrong.

May import `log_format`, PySpark, Arrow and NumPy; shares nothing else with the services that write
the log. `session.py` starts Spark, `data_source.py` is the log as a DataFrame.
"""
