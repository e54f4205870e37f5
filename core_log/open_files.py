"""The process's limit on open files, raised to what the configuration may need.

A stream is an open file. Many systems allow a process 1,024 unless it asks for more, and one that
runs out can neither accept connections nor open segments.
"""

import logging
import resource
from typing import Final

log = logging.getLogger("sidegate.core")

BESIDE_CONNECTIONS: Final = 1024
"""Two logs with 128 open segments of two files each, the listening sockets, pipes and libraries."""


def allow_open_files(connections: int) -> int:
    """Raise the limit as far as the system lets this process; the limit that holds then."""
    wanted = connections + BESIDE_CONNECTIONS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < allowed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
        soft = allowed
    if soft != resource.RLIM_INFINITY and soft < wanted:
        fields = {"allowed": soft, "wanted": wanted}
        log.warning(
            "too few open files are allowed; raise `ulimit -n` or lower limits.streams_max",
            extra={"fields": fields},
        )
    return soft
