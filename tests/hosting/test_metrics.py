"""Each service has a registry of its own, with the process's numbers in it."""

import sys

import pytest
from prometheus_client import REGISTRY, generate_latest

from hosting.metrics import HttpMetrics, new_registry


def test_two_services_in_one_process_do_not_meet() -> None:
    first, second = new_registry(), new_registry()
    HttpMetrics(first)
    HttpMetrics(second)
    assert b"sidegate_http" not in generate_latest(REGISTRY)


@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux's /proc")
def test_a_registry_tells_about_its_process() -> None:
    text = generate_latest(new_registry()).decode()
    for name in ("process_open_fds", "process_resident_memory_bytes", "python_gc_collections"):
        assert name in text
