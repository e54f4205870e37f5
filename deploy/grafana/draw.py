"""Draws the dashboards in `deploy/grafana/dashboards/` from the tables in `panels.py`.

    python deploy/grafana/draw.py

Standard library only.
"""

import json
from pathlib import Path
from typing import Any

from panels import DASHBOARDS, Panel

FOLDER = Path(__file__).parent / "dashboards"
SOURCE = {"type": "prometheus", "uid": "${source}"}
COLUMNS = 3
WIDTH, HEIGHT = 24 // COLUMNS, 8


def panel(number: int, content: Panel) -> dict[str, Any]:
    """One panel, at its place in the grid."""
    title, unit, queries = content
    return {
        "id": number + 1,
        "type": "timeseries",
        "title": title,
        "datasource": SOURCE,
        "gridPos": {
            "x": number % COLUMNS * WIDTH,
            "y": number // COLUMNS * HEIGHT,
            "w": WIDTH,
            "h": HEIGHT,
        },
        "fieldConfig": {"defaults": {"unit": unit, "min": 0}, "overrides": []},
        "targets": [
            {
                "refId": chr(ord("A") + index),
                "datasource": SOURCE,
                "expr": expr,
                "legendFormat": legend,
            }
            for index, (expr, legend) in enumerate(queries)
        ],
    }


def variables(panels: list[Panel]) -> list[dict[str, Any]]:
    """The data source, and the instance where the queries name one."""
    source = {"name": "source", "type": "datasource", "query": "prometheus", "label": "Prometheus"}
    if not any("$instance" in expr for _, _, queries in panels for expr, _ in queries):
        return [source]
    query = "label_values(sidegate_sidecar_uplink_connected, instance)"
    instance = {
        "name": "instance",
        "type": "query",
        "label": "Sidecar",
        "datasource": SOURCE,
        "query": {"query": query, "refId": "instance"},
        "refresh": 2,
        "sort": 1,
    }
    return [source, instance]


def dashboard(name: str) -> dict[str, Any]:
    """A dashboard's whole document."""
    title, panels = DASHBOARDS[name]
    return {
        "uid": f"sidegate-{name}",
        "title": title,
        "tags": ["sidegate"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "10s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": variables(panels)},
        "panels": [panel(number, content) for number, content in enumerate(panels)],
    }


def text(name: str) -> str:
    """The file of a dashboard, byte for byte."""
    return json.dumps(dashboard(name), indent=1) + "\n"


if __name__ == "__main__":
    for each in DASHBOARDS:
        (FOLDER / f"{each}.json").write_text(text(each))
