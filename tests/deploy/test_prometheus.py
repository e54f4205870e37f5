"""Metrics have sane names, and every rule names one that exists and has a test and a paragraph."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "deploy" / "prometheus"
RULES = [
    rule
    for group in yaml.safe_load((FOLDER / "rules.yaml").read_text())["groups"]
    for rule in group["rules"]
]
ALERTS = [rule for rule in RULES if "alert" in rule]
LABEL_VALUES_MAX = 200
"""A family with more children than this has a label that callers can choose."""


@pytest.mark.parametrize("service", ["core", "gatekeeper", "sidecar"])
def test_promtool_has_nothing_to_say_about_a_services_metrics(
    service: str, exported: Any, promtool: Callable[..., str]
) -> None:
    said = promtool("check", "metrics", data=exported.texts[service])
    assert not [line for line in said.splitlines() if "sidegate" in line], said


@pytest.mark.parametrize("service", ["core", "gatekeeper", "sidecar"])
def test_own_metrics_begin_with_sidegate_and_have_few_children(service: str, exported: Any) -> None:
    own = [line for line in exported.texts[service].splitlines() if line.startswith("sidegate_")]
    assert own
    for line in exported.texts[service].splitlines():
        assert line.startswith(("#", "sidegate_", "process_", "python_")), line
    names = [re.split(r"[{ ]", line)[0] for line in own]
    assert max(names.count(name) for name in names) < LABEL_VALUES_MAX


def test_promtool_takes_rules_and_configuration(promtool: Callable[..., str]) -> None:
    assert "SUCCESS" in promtool("check", "rules", "rules.yaml")
    assert "SUCCESS" in promtool("check", "config", "prometheus.yaml")


def test_every_alert_fires_when_it_should_and_only_then(promtool: Callable[..., str]) -> None:
    assert "SUCCESS" in promtool("test", "rules", "rules_test.yaml")


def test_every_alert_is_tested_sick_and_sound() -> None:
    tested = yaml.safe_load((FOLDER / "rules_test.yaml").read_text())["tests"]
    asked = [
        (one["alertname"], bool(one["exp_alerts"])) for t in tested for one in t["alert_rule_test"]
    ]
    for alert in ALERTS:
        assert (alert["alert"], True) in asked
        assert (alert["alert"], False) in asked


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.get("alert") or rule["record"])
def test_a_rule_names_metrics_that_exist(
    rule: dict[str, Any], exported: Any, named_metrics: Callable[[str], set[str]]
) -> None:
    assert named_metrics(rule["expr"]) <= exported.families.keys() | family_names(exported)
    recorded = {rule["record"] for rule in RULES if "record" in rule}
    assert set(re.findall(r"\bsidegate:\w+:\w+", rule["expr"])) <= recorded


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert["alert"])
def test_an_alert_has_a_severity_and_a_paragraph_that_tells_what_to_do(
    alert: dict[str, Any],
) -> None:
    assert alert["labels"]["severity"] in ("critical", "warning")
    page = (ROOT / "docs" / "operating.md").read_text()
    assert alert["annotations"]["runbook"] == f"docs/operating.md#{alert['alert'].lower()}"
    assert f"### {alert['alert']}\n" in page


def family_names(exported: Any) -> set[str]:
    """Families without the suffixes that the text format puts on them."""
    return {re.sub(r"_(total|info|created)$", "", name) for name in exported.families}
