"""The limit on open files is raised as far as it may be, and a lack of room is told."""

import resource
import subprocess
import sys

import pytest

SCRIPT = """
import logging, resource, sys
from core_log.open_files import allow_open_files
logging.basicConfig(stream=sys.stdout, format="%(message)s")
soft, hard, connections = map(int, sys.argv[1:])
resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
print(allow_open_files(connections), resource.getrlimit(resource.RLIMIT_NOFILE)[0])
"""


@pytest.mark.parametrize(
    ("soft", "hard", "connections", "allowed", "warns"),
    [
        (256, 4096, 1000, 2024, False),
        (4000, 4096, 1000, 4000, False),
        (256, 1500, 1000, 1500, True),
    ],
)
def test_the_limit_grows_to_what_is_needed_and_never_shrinks(
    soft: int, hard: int, connections: int, allowed: int, warns: bool
) -> None:
    if resource.getrlimit(resource.RLIMIT_NOFILE)[1] < hard:
        pytest.skip(f"needs a hard limit of {hard} open files")
    # Limits belong to a whole process, so another one tries them.
    tried = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(soft), str(hard), str(connections)],
        capture_output=True,
        text=True,
        check=True,
    )
    *warning, answer = tried.stdout.splitlines()
    assert answer == f"{allowed} {allowed}"
    assert bool(warning) == warns
