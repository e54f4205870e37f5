"""The contract between every part of Sidegate: batch bytes, topic names, leaf hashing.

Pure functions over bytes, no I/O. May import the standard library, `crc32c` and `zstandard`;
must never know of HTTP, files, configuration or any service. `docs/format.md` is its prose.
"""
