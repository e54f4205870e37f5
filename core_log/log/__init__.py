"""The log on disk.

A ladder from bytes at positions to one append-only series of segments with one writer, and its
recovery. Each file imports only the rungs below it.
"""
