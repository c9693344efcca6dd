"""The alert rules fit the metrics, and miss no state that needs a person."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from hearth.model.phases import Phase
from hearth.plan.rollouts.rollout_report import EVENT_TYPES, WARNING, DefinitionReason
from hearth.plan.status import conditions

ROOT = Path(__file__).resolve().parents[2]
FILE = ROOT / "manifests" / "observability" / "alerts.yaml"
RULE = yaml.safe_load(FILE.read_text())
RULES: list[dict[str, Any]] = [rule for group in RULE["spec"]["groups"] for rule in group["rules"]]
DOCUMENT = (ROOT / "docs" / "metrics.md").read_text()
NO_ALERT = {
    "RollingBack": "an action in progress: HearthStackInProgressForLong",
    "Stalled": "the phase tells more: HearthStackFailed, HearthStackRolledBack",
    "InternalError": "the operator's own counter: HearthInternalError",
}
"""Conditions without an alert of their own, and what catches them."""


def find_selected(label: str) -> list[str]:
    """Return the patterns by which the rules select values of a label."""
    return [found for rule in RULES for found in re.findall(rf'{label}=~?"([^"]+)"', rule["expr"])]


def test_every_condition_that_needs_a_person_has_an_alert() -> None:
    """A new condition needs an alert, or a reason why not."""
    patterns = find_selected("condition")
    uncaught = {
        type_
        for type_ in (*conditions.SHOWN, conditions.ROLLED_BACK)
        if not any(re.fullmatch(pattern, type_) for pattern in patterns)
    }

    assert uncaught == set(NO_ALERT)


def test_every_failed_phase_has_an_alert() -> None:
    """A check that finds problems too."""
    (pattern,) = find_selected("phase")

    assert {each for each in Phase if re.fullmatch(pattern, each)} == {
        each for each in Phase if each.endswith("Failed")
    }


def test_every_reason_of_a_definition_that_is_a_warning_has_an_alert() -> None:
    """Apart from what passes by itself, and what its deletion meets."""
    patterns = find_selected("reason")
    warnings = {reason for reason, type_ in EVENT_TYPES.items() if type_ == WARNING}
    caught = {reason for reason in warnings if any(re.fullmatch(pattern, reason) for pattern in patterns)}

    assert warnings - caught == {DefinitionReason.ROLLING_BACK, DefinitionReason.DELETION_BLOCKED}


def test_every_metric_of_a_rule_is_documented() -> None:
    """A rule on a metric that does not exist never fires."""
    documented = set(re.findall(r"^\| `(hearth_\w+)`", DOCUMENT, flags=re.MULTILINE))
    used = {name.removesuffix("_bucket") for rule in RULES for name in re.findall(r"\bhearth_\w+", rule["expr"])}

    assert used - documented == set()
    assert len(used) > 8


@pytest.mark.parametrize("rule", [pytest.param(rule, id=rule["alert"]) for rule in RULES])
def test_every_alert_says_what_to_do(rule: dict[str, Any]) -> None:
    """With a severity to route by, and a row in the table for people."""
    assert rule["labels"]["severity"] in {"info", "warning", "critical"}
    assert rule["annotations"]["summary"]
    assert rule["annotations"]["description"].endswith((".", "`."))
    assert f"`{rule['alert']}`" in DOCUMENT
