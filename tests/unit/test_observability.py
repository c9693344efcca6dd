"""The alert rules and the Grafana dashboard match the metrics: every state that needs action has an alert, and no chart
is empty.
"""

from __future__ import annotations

import copy
import itertools
import json
import re
from typing import Any

import pytest
import yaml

from hearth.model.phases import Phase
from hearth.plan.rollouts.rollout_report import EVENT_TYPES, WARNING, DefinitionReason
from hearth.plan.status import conditions
from support import repository
from support.gitops import grafana_schema

FILE = repository.MANIFESTS / "observability" / "alerts.yaml"
RULE = yaml.safe_load(FILE.read_text())
RULES: list[dict[str, Any]] = [rule for group in RULE["spec"]["groups"] for rule in group["rules"]]
DOCUMENT = (repository.DOCS / "metrics.md").read_text()
NO_ALERT = {
    "RollingBack": "an action in progress: HearthStackInProgressForLong",
    "Stalled": "the phase tells more: HearthStackFailed, HearthStackRolledBack",
    "ChangeHeld": "intended by the author; `status.heldChange` tells until when",
    "Expiring": "intended by the author; an Event and `status.expiresAt` announce it",
    "InternalError": "the operator's own counter: HearthInternalError",
}
"""Conditions without an alert, and the alerts that cover them."""


def find_selected(label: str) -> list[str]:
    """Return the patterns that the rules use to select values of a label."""
    return [found for rule in RULES for found in re.findall(rf'{label}=~?"([^"]+)"', rule["expr"])]


def test_every_condition_that_needs_a_person_has_an_alert() -> None:
    patterns = find_selected("condition")
    uncaught = {
        type_
        for type_ in (*conditions.SHOWN, conditions.ROLLED_BACK)
        if not any(re.fullmatch(pattern, type_) for pattern in patterns)
    }

    assert uncaught == set(NO_ALERT)


def test_every_failed_phase_has_an_alert() -> None:
    (pattern,) = find_selected("phase")

    assert {each for each in Phase if re.fullmatch(pattern, each)} == {
        each for each in Phase if each.endswith("Failed")
    }


def test_every_reason_of_a_definition_that_is_a_warning_has_an_alert() -> None:
    patterns = find_selected("reason")
    warnings = {reason for reason, type_ in EVENT_TYPES.items() if type_ == WARNING}
    caught = {reason for reason in warnings if any(re.fullmatch(pattern, reason) for pattern in patterns)}

    assert warnings - caught == {DefinitionReason.ROLLING_BACK, DefinitionReason.DELETION_BLOCKED}


def test_every_metric_of_a_rule_is_documented() -> None:
    documented = set(re.findall(r"^\| `(hearth_\w+)`", DOCUMENT, flags=re.MULTILINE))
    used = {name.removesuffix("_bucket") for rule in RULES for name in re.findall(r"\bhearth_\w+", rule["expr"])}

    assert used - documented == set()
    assert len(used) > 8


@pytest.mark.parametrize("rule", [pytest.param(rule, id=rule["alert"]) for rule in RULES])
def test_every_alert_says_what_to_do(rule: dict[str, Any]) -> None:
    assert rule["labels"]["severity"] in {"info", "warning", "critical"}
    assert rule["annotations"]["summary"]
    assert rule["annotations"]["description"].endswith((".", "`."))
    assert f"`{rule['alert']}`" in DOCUMENT


# The Grafana dashboard shows metrics that exist, with their labels, and fits on its grid.


DASHBOARD: dict[str, Any] = json.loads((repository.MANIFESTS / "observability" / "dashboard.json").read_text())
PANELS: list[dict[str, Any]] = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
QUERIES = [(panel["title"], target["expr"]) for panel in PANELS for target in panel["targets"]]
METRIC = re.compile(r"\b(?:hearth|process)_[a-z_]+")
ROW = re.compile(r"^\| `(?P<name>hearth_\w+)` \| (?P<type>\w+) \| (?P<labels>[^|]*)\|", re.MULTILINE)
OF_SCRAPES = {"job", "namespace", "pod", "le"}
"""Labels that Prometheus adds."""
OF_PROCESS = {"process_resident_memory_bytes", "process_cpu_seconds_total"}
"""Metrics from the library, without labels."""
COLUMNS = 24


def find_documented() -> dict[str, set[str]]:
    """Return the labels of each series by its name."""
    found: dict[str, set[str]] = {name: set() for name in OF_PROCESS}
    for row in ROW.finditer((repository.DOCS / "metrics.md").read_text()):
        labels = set(re.findall(r"`(\w+)`", row["labels"]))
        suffixes = ("_bucket", "_sum", "_count") if row["type"] == "histogram" else ("",)
        found |= {f"{row['name']}{suffix}": labels for suffix in suffixes}
    return found


def test_the_dashboard_is_valid() -> None:
    assert grafana_schema.find_mistakes(DASHBOARD) == []


@pytest.mark.parametrize(
    ("change", "mistake"),
    [
        pytest.param({"refesh": "30s"}, "$.refesh: no such field", id="an unknown field"),
        pytest.param({"title": 7}, "$.title: 7 is no str", id="a wrong type"),
        pytest.param({"graphTooltip": 7}, "$.graph_tooltip: 7 is no DashboardCursorSync", id="an unknown choice"),
        pytest.param({"time": "now"}, "$.time: 'now' is read as", id="another structure"),
        pytest.param({"templating": {"list": 7}}, "it cannot be read", id="no structure"),
    ],
)
def test_an_invalid_dashboard_is_noticed(change: dict[str, Any], mistake: str) -> None:
    found = grafana_schema.find_mistakes(DASHBOARD | change)

    assert len(found) == 1
    assert found[0].startswith(mistake)


def test_an_invalid_panel_is_noticed() -> None:
    wrong = copy.deepcopy(DASHBOARD)
    stat = next(panel for panel in wrong["panels"] if panel["type"] == "stat")
    stat["options"]["colorMode"] = "rainbow"
    stat["fieldConfig"]["defaults"]["max"] = "high"
    stat["targets"][0]["exprs"] = ""
    number = wrong["panels"].index(stat)

    assert sorted(grafana_schema.find_mistakes(wrong)) == [
        f"$.panels[{number}].field_config.defaults.max: 'high' is no float",
        f"$.panels[{number}].options.color_mode: 'rainbow' is no BigValueColorMode",
        f"$.panels[{number}].targets[0].exprs: no such field",
    ]


@pytest.mark.parametrize(("title", "query"), QUERIES)
def test_a_panel_shows_documented_metrics(title: str, query: str) -> None:
    documented = find_documented()
    metrics = METRIC.findall(query)
    by = [label.strip() for found in re.findall(r"by \(([^)]*)\)", query) for label in found.split(",")]
    matched = re.findall(r"(\w+)(?:=~|!=|=)\"", query)

    assert metrics != []
    assert [name for name in metrics if name not in documented] == []
    known = OF_SCRAPES.union(*(documented[name] for name in metrics))
    assert {*by, *matched} - known == set()


def test_legends_name_labels_that_are_left() -> None:
    wrong = []
    for panel in PANELS:
        for target in panel["targets"]:
            by = re.findall(r"by \(([^)]*)\)", target["expr"])
            kept = {label.strip() for found in by for label in found.split(",")} if by else OF_SCRAPES
            wrong += [
                (panel["title"], each) for each in re.findall(r"{{(\w+)}}", target["legendFormat"]) if each not in kept
            ]

    assert wrong == []


def test_all_own_metrics_are_shown() -> None:
    shown = {name for _, query in QUERIES for name in METRIC.findall(query)}
    documented = {row["name"] for row in ROW.finditer((repository.DOCS / "metrics.md").read_text())}

    assert {name for name in documented if not any(each.startswith(name) for each in shown)} == set()


def test_panels_have_a_place_of_their_own() -> None:
    places = [panel["gridPos"] for panel in DASHBOARD["panels"]]
    cells = [
        (x, y)
        for place in places
        for x, y in itertools.product(
            range(place["x"], place["x"] + place["w"]), range(place["y"], place["y"] + place["h"])
        )
    ]

    assert len(set(cells)) == len(cells)
    assert max(x for x, _ in cells) < COLUMNS
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(places)


def test_each_query_asks_the_chosen_source() -> None:
    chosen = {"type": "prometheus", "uid": "${datasource}"}

    assert all(panel["datasource"] == chosen for panel in PANELS)
    assert all(target["datasource"] == chosen for panel in PANELS for target in panel["targets"])
    assert [each["name"] for each in DASHBOARD["templating"]["list"]] == ["datasource", "namespace", "job"]
