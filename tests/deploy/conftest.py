"""What the running services export, and the outside checkers of deploy/."""

import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.request import ProxyHandler, build_opener

import pytest
import yaml

ROOT = Path(__file__).parents[2]
TYPE = re.compile(r"^# TYPE (\w+) (\w+)$", re.MULTILINE)
OPENER = build_opener(ProxyHandler({}))


@dataclass(frozen=True)
class Exported:
    """Each service's /metrics, as text; and the families of all of them, with their types."""

    texts: dict[str, str]

    @property
    def families(self) -> dict[str, str]:
        return {name: kind for text in self.texts.values() for name, kind in TYPE.findall(text)}


@pytest.fixture(scope="session")
def exported(mesh: Any) -> Exported:
    """The metrics of a mesh through which a message and a denial have gone."""
    mesh.request("POST", "/publish", {"topic": "metrics", "message": 1})
    mesh.request("POST", "/publish", {"topic": "forbidden.metrics", "message": 1})
    pages = {"sidecar": f"{mesh.url}/metrics"}
    for service in ("core", "gatekeeper"):
        config = yaml.safe_load((mesh.state / f"{service}.yaml").read_text())
        pages[service] = f"http://{config['health']}/metrics"
    return Exported({name: _get(url) for name, url in pages.items()})


@pytest.fixture(scope="session")
def named_metrics() -> Callable[[str], set[str]]:
    """The families that a query names; a recorded rule (with colons) is none."""

    def named(query: str) -> set[str]:
        found = re.findall(r"(?<![\w:])(?:sidegate|process|python)_[a-z0-9_]+(?![\w:])", query)
        return {re.sub(r"_(total|bucket|count|sum|info)$", "", name) for name in found}

    return named


@pytest.fixture(scope="session")
def promtool() -> Callable[..., str]:
    """Runs promtool; fails with what it says."""
    if shutil.which("promtool") is None:
        pytest.skip("needs promtool (Debian's package prometheus)")

    def run(*arguments: str, data: str = "") -> str:
        done = subprocess.run(
            ["promtool", *arguments],
            input=data,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
            cwd=ROOT / "deploy" / "prometheus",
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    return run


def _get(url: str) -> str:
    with OPENER.open(url, timeout=10) as answer:
        return str(answer.read().decode())
