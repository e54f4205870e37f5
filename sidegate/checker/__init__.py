"""An independent check of a log's files: what `sidegate log verify` and `log dump` do.

Knows the format and nothing of the engine that wrote it: it may import `log_format` and must
never import `core_log`, so that a fault in the one is not repeated in the other.
"""
