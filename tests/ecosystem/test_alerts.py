"""The alert rules and the queries of the dashboard as Prometheus understands them: promtool, from its own Go module."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from support import repository
from support.ecosystem import programs

FOLDER = repository.MANIFESTS / "observability"
GROUPS: dict[str, Any] = yaml.safe_load((FOLDER / "alerts.yaml").read_text())["spec"]
ALERTS = [rule["alert"] for group in GROUPS["groups"] for rule in group["rules"]]
CONDITION = "hearth_stack_conditions"
SLOW = {f'hearth_event_to_write_seconds_bucket{{le="{le}"}}': "0+0x60" for le in ("1", "10", "30")}
CASES: dict[str, tuple[dict[str, str], int]] = {
    "HearthStackFailed": ({'hearth_stacks{phase="UpdateFailed"}': "0x3 1x60"}, 10),
    "HearthStackRolledBack": ({f'{CONDITION}{{condition="RolledBack"}}': "0x3 1x60"}, 6),
    "HearthRolloutStopped": ({'hearth_definitions{reason="RolloutStopped"}': "0x3 1x60"}, 6),
    "HearthDefinitionRefused": ({'hearth_definitions{reason="InvalidDefinition"}': "0x3 1x60"}, 10),
    "HearthStackInProgressForLong": ({'hearth_oldest_action_seconds{phase="UpdateInProgress"}': "60+60x120"}, 70),
    "HearthDeletionBlocked": ({f'{CONDITION}{{condition="DeletionBlocked"}}': "0x3 1x60"}, 16),
    "HearthStackStopped": ({f'{CONDITION}{{condition="Stopped"}}': "0x3 1x60"}, 40),
    "HearthStackDrifted": ({f'{CONDITION}{{condition="Drifted"}}': "0x3 1x90"}, 70),
    "HearthDriftConflict": ({f'{CONDITION}{{condition="DriftConflict"}}': "0x3 1x60"}, 20),
    "HearthWritesDelayed": ({f'{CONDITION}{{condition="WritesDelayed"}}': "0x3 1x60"}, 20),
    "HearthStackUnhealthy": ({f'{CONDITION}{{condition="Unhealthy"}}': "0x3 1x60"}, 40),
    "HearthStackPaused": ({f'{CONDITION}{{condition="Paused"}}': "0x3 1x1500"}, 1450),
    "HearthCheckPending": ({f'{CONDITION}{{condition="CheckPending"}}': "0x3 1x60"}, 40),
    "HearthRecordInvalid": ({f'{CONDITION}{{condition="RevisionTampered"}}': "0x3 1x60"}, 6),
    "HearthClusterUnreachable": ({f'{CONDITION}{{condition="ClusterUnreachable"}}': "0x3 1x60"}, 16),
    "HearthClustersProcessRestarts": ({"hearth_clusters_process_restarts_total": "0x3 1 2 3x60"}, 10),
    "HearthNotWorking": ({"hearth_leader": "1x3 0x60"}, 8),
    # A counter has no series before its first error, so that nothing increases then.
    "HearthInternalError": ({'hearth_internal_errors_total{where="pass"}': "_x3 1x60"}, 6),
    "HearthSlow": (SLOW | {'hearth_event_to_write_seconds_bucket{le="+Inf"}': "0+10x60"}, 40),
    "HearthApiRequestsFail": (
        {
            'hearth_api_requests_total{code="200"}': "0+90x60",
            'hearth_api_requests_total{code="503"}': "0x9 0+10x50",
        },
        40,
    ),
    "HearthObjectUnreadable": ({'hearth_skipped_objects_total{kind="Pod",reason="size"}': "_x3 1x60"}, 6),
    "HearthLimitReached": ({'hearth_limit_reached_total{limit="marks"}': "_x3 1x60"}, 6),
}
"""For each alert, one value per minute, and the minute when it fires. It must not fire in the first two minutes."""
ALL_IS_WELL = {
    'hearth_stacks{phase="UpdateComplete"}': "5x1500",
    "hearth_leader": "1x1500",
    f'{CONDITION}{{condition="RolledBack"}}': "0x1500",
    'hearth_api_requests_total{code="200"}': "0+90x1500",
    'hearth_event_to_write_seconds_bucket{le="1"}': "0+10x1500",
    'hearth_event_to_write_seconds_bucket{le="+Inf"}': "0+10x1500",
    'hearth_internal_errors_total{where="pass"}': "1x1500",
}
"""With an internal error a day ago."""


def run_rules(folder: Path, tests: list[dict[str, Any]]) -> None:
    """Let promtool run tests of the rules."""
    (folder / "rules.yaml").write_text(yaml.safe_dump(GROUPS))
    document = {"rule_files": ["rules.yaml"], "evaluation_interval": "1m", "tests": tests}
    (folder / "tests.yaml").write_text(yaml.safe_dump(document))
    done = programs.run_promtool("test", "rules", str(folder / "tests.yaml"))
    assert done.returncode == 0, done.stdout + done.stderr


def expect(series: dict[str, str], firing: dict[int, dict[str, int]]) -> dict[str, Any]:
    """A test: these series, and by minute how often each alert fires."""
    return {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "promql_expr_test": [
            {
                "expr": 'count by (alertname) (ALERTS{alertstate="firing"})',
                "eval_time": f"{minute}m",
                "exp_samples": [
                    {"labels": f'{{alertname="{name}"}}', "value": count} for name, count in alerts.items()
                ],
            }
            for minute, alerts in firing.items()
        ],
    }


def test_the_rules_are_valid(tmp_path: Path) -> None:
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump(GROUPS))

    done = programs.run_promtool("check", "rules", "--lint-fatal", str(tmp_path / "rules.yaml"))

    assert done.returncode == 0, done.stdout + done.stderr


def test_each_alert_has_a_case() -> None:
    assert list(CASES) == ALERTS


@pytest.mark.parametrize("alert", CASES)
def test_an_alert_fires_when_it_should(alert: str, tmp_path: Path) -> None:
    series, minute = CASES[alert]
    # Without a leader, another alert would fire as well.
    series = {"hearth_leader": f"1x{minute + 60}"} | series

    run_rules(tmp_path, [expect(series, {2: {}, minute: {alert: 1}})])


def test_nothing_fires_while_all_is_well(tmp_path: Path) -> None:
    run_rules(tmp_path, [expect(ALL_IS_WELL, {60: {}, 300: {}, 1440: {}})])


def test_the_queries_of_the_dashboard_are_valid(tmp_path: Path) -> None:
    dashboard = json.loads((FOLDER / "dashboard.json").read_text())
    queries = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", ())]
    rules = [
        {"record": f"panel:query:{number}", "expr": query.replace("$__rate_interval", "5m")}
        for number, query in enumerate(queries)
    ]
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}))

    done = programs.run_promtool("check", "rules", str(tmp_path / "rules.yaml"))

    assert done.returncode == 0, done.stdout + done.stderr
    assert len(queries) > 30
