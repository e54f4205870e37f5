"""The audit's checks: each one a pure function from DataFrames to a DataFrame, in its own file.

Completeness and integrity give findings; the other checks give content. None reads a file, starts
a session or prints. They may import PySpark, Arrow and `log_format`.
"""
