"""Every benchmark is found by `make bench`, and the page tells of it."""

from pathlib import Path

from bench.__main__ import benchmarks, main

PAGE = (Path(__file__).parents[2] / "docs" / "benchmarks.md").read_text(encoding="utf-8")


def test_what_only_serves_as_a_peer_is_no_benchmark() -> None:
    found = benchmarks()
    assert {"core_append", "sidecar_idle", "sidecar_lines", "sidecar_publish"} <= set(found)
    assert not {"bare_aiohttp", "bare_forwarder", "runner"} & set(found)


def test_the_page_tells_of_each() -> None:
    for name in benchmarks():
        assert f"`bench/{name}.py`" in PAGE, name


def test_an_unknown_name_is_refused_before_anything_runs() -> None:
    assert main(["core_append", "nothing"]) == 2
