"""The dashboards are drawn from their tables, and every query names a metric that exists."""

import json
import re
from collections.abc import Callable, Iterator
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "deploy" / "grafana"
NAMES = ("core", "gatekeeper", "mesh", "sidecar")


@pytest.fixture
def draw(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(FOLDER)
    spec = spec_from_file_location("draw", FOLDER / "draw.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def queries(name: str) -> Iterator[str]:
    document = json.loads((FOLDER / "dashboards" / f"{name}.json").read_text())
    for panel in document["panels"]:
        for target in panel["targets"]:
            yield target["expr"]


@pytest.mark.parametrize("name", NAMES)
def test_a_dashboard_is_what_its_table_draws(name: str, draw: Any) -> None:
    assert sorted(draw.DASHBOARDS) == list(NAMES)
    drawn = (FOLDER / "dashboards" / f"{name}.json").read_text()
    assert drawn == draw.text(name), "run python deploy/grafana/draw.py"


@pytest.mark.parametrize("name", NAMES)
def test_every_query_names_a_metric_that_exists(
    name: str, exported: Any, named_metrics: Callable[[str], set[str]]
) -> None:
    families = {re.sub(r"_(total|info|created)$", "", family) for family in exported.families}
    rules = yaml.safe_load((ROOT / "deploy/prometheus/rules.yaml").read_text())
    recorded = {
        rule["record"] for group in rules["groups"] for rule in group["rules"] if "record" in rule
    }
    asked = list(queries(name))
    assert len(asked) >= 9
    for query in asked:
        recorded_here = set(re.findall(r"\bsidegate:\w+:\w+", query))
        assert named_metrics(query) or recorded_here, query
        assert named_metrics(query) <= families, query
        assert recorded_here <= recorded, query


@pytest.mark.parametrize("name", NAMES)
def test_every_query_is_one_that_prometheus_can_parse(
    name: str, promtool: Callable[..., str], tmp_path: Path
) -> None:
    rules = [
        {"record": f"query:{index}:check", "expr": query.replace("$instance", "one:9002")}
        for index, query in enumerate(queries(name))
    ]
    file = tmp_path / "queries.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "queries", "rules": rules}]}))
    assert "SUCCESS" in promtool("check", "rules", str(file))
